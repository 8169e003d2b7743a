#include "server/metrics/exporter.h"

#include "common/format.h"

#include <prometheus/collectable.h>
#include <prometheus/exposer.h>
#include <prometheus/metric_family.h>

#include <chrono>
#include <exception>
#include <future>

namespace sluice::server::metrics {
namespace {

constexpr std::chrono::seconds kAnswerTime{2};

prometheus::MetricFamily converted(const Family& family) {
  prometheus::MetricFamily out;
  out.name = family.name;
  out.help = family.help;
  out.type = family.is_counter ? prometheus::MetricType::Counter : prometheus::MetricType::Gauge;
  for (const Sample& sample : family.samples) {
    prometheus::ClientMetric& metric = out.metric.emplace_back();
    for (const auto& [name, value] : sample.labels) metric.label.push_back({name, value});
    (family.is_counter ? metric.counter.value : metric.gauge.value) = sample.value;
  }
  return out;
}

class Collector final : public prometheus::Collectable {
 public:
  Collector(control::Administration& server, Exporter::Post post)
      : server_(server), post_(std::move(post)) {}

  [[nodiscard]] std::vector<prometheus::MetricFamily> Collect() const override {
    const auto answer = std::make_shared<std::promise<Snapshot>>();
    auto coming = answer->get_future();
    post_([answer, &server = server_] {
      answer->set_value({server.server(), server.tenants(), server.metered()});
    });
    std::vector<prometheus::MetricFamily> out;
    for (const Family& family : families_of(coming)) out.push_back(converted(family));
    return out;
  }

 private:
  static std::vector<Family> families_of(std::future<Snapshot>& coming) {
    if (coming.wait_for(kAnswerTime) != std::future_status::ready)
      return families_of_a_stuck_server();
    try {
      return families(coming.get());
    } catch (const std::future_error&) {  // the server ends, and drops the question
      return families_of_a_stuck_server();
    }
  }

  control::Administration& server_;
  Exporter::Post post_;
};

}  // namespace

struct Exporter::Parts {
  std::shared_ptr<Collector> collector;
  std::unique_ptr<prometheus::Exposer> exposer;
};

Exporter::Exporter(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Exporter::~Exporter() = default;

Result<std::unique_ptr<Exporter>> Exporter::start(const std::string& listen,
                                                  control::Administration& server, Post post) {
  auto parts = std::make_unique<Parts>();
  parts->collector = std::make_shared<Collector>(server, std::move(post));
  try {
    parts->exposer = std::make_unique<prometheus::Exposer>(listen);
    parts->exposer->RegisterCollectable(parts->collector);
  } catch (const std::exception& error) {
    return fail(ErrorCode::kSystem, format("[metrics] listen = \"{}\": {} (is the port in use?)",
                                           listen, error.what()));
  }
  return std::unique_ptr<Exporter>(new Exporter(std::move(parts)));
}

}  // namespace sluice::server::metrics
