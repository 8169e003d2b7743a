#include "targets.h"

#include "common/format.h"
#include "json.h"
#include "tools/table.h"

#include <cstdio>
#include <utility>

namespace sluice::bench {
namespace {

enum class Rule {
  kRatioAtMost,
  kRatioAtMostPlusOne,  ///< value <= limit * raw + 1
  kRatioAtLeast,
  kValueAtMost,
};

struct Target {
  const char* of;
  const char* figure;
  const char* raw;  ///< that it is compared with; empty: any
  Rule rule;
  double limit;
};

constexpr Target kTargets[] = {
    {"shm", "synchronize p50", "spinning on memory", Rule::kRatioAtMost, 1.5},
    {"shm", "synchronize p50", "futex", Rule::kRatioAtMost, 1.3},
    {"tcp", "synchronize p50", "TCP socket", Rule::kRatioAtMost, 1.3},
    {"shm", "launch + synchronize p50", "spinning on memory", Rule::kRatioAtMostPlusOne, 1.5},
    {"shm", "launch + synchronize p50", "futex", Rule::kRatioAtMostPlusOne, 1.3},
    {"tcp", "launch + synchronize p50", "TCP socket", Rule::kRatioAtMostPlusOne, 1.3},
    {"shm", "launch in the client", "", Rule::kValueAtMost, 0.5},
    {"tcp", "launch in the client", "", Rule::kValueAtMost, 0.5},
    {"shm", "launch in the worker, at most", "", Rule::kValueAtMost, 0.5},
    {"tcp", "launch in the worker, at most", "", Rule::kValueAtMost, 0.5},
    {"shm", "waits: stream, event, record, wait, query", "", Rule::kValueAtMost, 0},
    {"shm", "waits: allocate, free", "", Rule::kValueAtMost, 0},
    {"shm", "host to device, 256 MiB", "memcpy", Rule::kRatioAtLeast, 0.9},
    {"shm", "device to host, 256 MiB", "memcpy", Rule::kRatioAtLeast, 0.9},
    {"tcp", "host to device, 256 MiB", "TCP socket, staged", Rule::kRatioAtLeast, 0.9},
    {"tcp", "device to host, 256 MiB", "TCP socket, staged", Rule::kRatioAtLeast, 0.9},
    {"shm", "launch + synchronize beside a copy p50", "", Rule::kRatioAtMost, 2},
    {"shm", "launch + synchronize beside a copy p99", "", Rule::kValueAtMost, 5'000},
    {"tcp", "launch + synchronize beside a copy p50", "", Rule::kRatioAtMost, 2},
    {"tcp", "launch + synchronize beside a copy p99", "", Rule::kValueAtMost, 5'000},
    {"shm", "launches by two threads", "", Rule::kRatioAtLeast, 1},
    {"tcp", "launches by two threads", "", Rule::kRatioAtLeast, 1},
    {"channel shm", "commands, batched", "bare ring", Rule::kRatioAtLeast, 0.5},
    {"channel tcp", "commands, batched", "tcp socket", Rule::kRatioAtLeast, 0.8},
    {"channel tcp-tls", "bulk", "AES-256-GCM, one core", Rule::kRatioAtLeast, 0.8},
};

const Figure* find(const std::vector<Measurement>& measured, const Target& target) {
  for (const Measurement& one : measured) {
    if (one.of != target.of) continue;
    for (const Figure& f : one.figures)
      if (f.name == target.figure && (*target.raw == '\0' || f.raw_name == target.raw)) return &f;
  }
  return nullptr;
}

bool is_met(const Target& target, const Figure& f) {
  switch (target.rule) {
    case Rule::kRatioAtMost:
      return f.ratio() <= target.limit;
    case Rule::kRatioAtMostPlusOne:
      return f.value <= target.limit * f.raw + 1;
    case Rule::kRatioAtLeast:
      return f.ratio() >= target.limit;
    case Rule::kValueAtMost:
      return f.value <= target.limit;
  }
  return false;
}

std::string text_of(const Target& target, const std::string& unit) {
  switch (target.rule) {
    case Rule::kRatioAtMost:
      return format("<= {} x raw", target.limit);
    case Rule::kRatioAtMostPlusOne:
      return format("<= {} x raw + 1 us", target.limit);
    case Rule::kRatioAtLeast:
      return format(">= {} x raw", target.limit);
    case Rule::kValueAtMost:
      return unit.empty() ? format("<= {}", target.limit) : format("<= {} {}", target.limit, unit);
  }
  return "";
}

}  // namespace

std::vector<Row> judge_targets(const std::vector<Measurement>& measured) {
  std::vector<Row> out;
  for (const Target& target : kTargets) {
    const Figure* figure = find(measured, target);
    if (figure == nullptr)
      out.push_back({target.of, text_of(target, ""), Figure{target.figure, "", 0, target.raw, 0},
                     false, false});
    else
      out.push_back(
          {target.of, text_of(target, figure->unit), *figure, true, is_met(target, *figure)});
  }
  return out;
}

Figure launch_in_worker(const std::vector<Figure>& through_sluice,
                        const std::vector<Figure>& driver_alone) {
  const auto us_each = [](const std::vector<Figure>& figures) {
    for (const Figure& f : figures)
      if (f.name == "launches posted and done" && f.value > 0) return 1 / f.value;
    return 0.0;
  };
  const double driver_us = us_each(driver_alone);
  return {"launch in the worker, at most", "us", us_each(through_sluice) - driver_us,
          "the driver's own part", driver_us};
}

void print_targets(const std::string& output, const std::vector<Row>& rows, double load_before,
                   double load_after) {
  if (output == "json") {
    nlohmann::json list = nlohmann::json::array();
    for (const Row& row : rows) {
      nlohmann::json one = to_json(row.figure);
      one["of"] = row.of;
      one["target"] = row.target;
      one["met"] = row.is_measured ? nlohmann::json(row.is_met) : nlohmann::json();
      list.push_back(std::move(one));
    }
    std::printf("%s\n", nlohmann::json{{"load_before", load_before},
                                       {"load_after", load_after},
                                       {"targets", std::move(list)}}
                            .dump()
                            .c_str());
    return;
  }
  tool::Table table({"OF", "WHAT", "MEASURED", "RAW", "RATIO", "TARGET", "MET", "RAW IS"});
  for (const Row& row : rows) {
    const Figure& f = row.figure;
    table.add({row.of, f.name, row.is_measured ? format("{:.3f} {}", f.value, f.unit) : "-",
               row.is_measured && f.raw > 0 ? format("{:.3f}", f.raw) : "-",
               row.is_measured && f.raw > 0 ? format("{:.2f}", f.ratio()) : "-", row.target,
               !row.is_measured ? "no figure"
               : row.is_met     ? "yes"
                                : "no",
               f.raw_name});
  }
  std::printf("%sload average %.1f before, %.1f after\n", table.text().c_str(), load_before,
              load_after);
}

}  // namespace sluice::bench
