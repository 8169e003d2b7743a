#include "tools/sluicectl/bench.h"

#include "common/format.h"
#include "scheduler/simulation/proof.h"
#include "scheduler/simulation/simulation.h"
#include "tools/table.h"

#include <nlohmann/json.hpp>
#include <unistd.h>

#include <cmath>
#include <cstdio>

namespace sluice::tool {
namespace {

namespace simulation = scheduler::simulation;
constexpr const char* kPolicy = "fair-share";

struct Row {
  simulation::Promise promise;
  double figure = 0, native = 0;

  [[nodiscard]] bool is_kept() const { return promise.is_kept(figure); }
};

std::string text_of(double figure) {
  const double shown = std::abs(figure) < 0.0005 ? 0.0 : figure;
  return std::abs(shown) >= 10 ? format("{:.1f}", shown) : format("{:.3f}", shown);
}

/// On the terminal only: a script that reads stderr wants errors.
void say_progress(std::size_t done, std::size_t all, const std::string& what) {
  if (::isatty(STDERR_FILENO) == 0) return;
  std::fprintf(stderr, "\r\033[K%zu/%zu %s", done, all, what.c_str());
  if (done == all) std::fprintf(stderr, "\r\033[K");
  std::fflush(stderr);
}

nlohmann::json json_of(const std::vector<Row>& rows) {
  nlohmann::json out = nlohmann::json::array();
  for (const Row& row : rows)
    out.push_back({{"promise", row.promise.name},
                   {"unit", row.promise.unit},
                   {"bound", row.promise.bound},
                   {"bound_is", row.promise.is_least ? "least" : "most"},
                   {"policy", kPolicy},
                   {"figure", row.figure},
                   {"native", row.native},
                   {"is_kept", row.is_kept()}});
  return out;
}

std::string table_of(const std::vector<Row>& rows) {
  Table table({"PROMISE", "BOUND", "SLUICE", "NATIVE", "UNIT", "KEPT"});
  for (const Row& row : rows)
    table.add(
        {row.promise.name, (row.promise.is_least ? ">= " : "<= ") + text_of(row.promise.bound),
         text_of(row.figure), text_of(row.native), row.promise.unit, row.is_kept() ? "yes" : "NO"});
  return table.text();
}

}  // namespace

int bench_quota(bool as_json) {
  std::vector<Row> rows;
  const auto promises = simulation::promises();
  for (const simulation::Promise& promise : promises) {
    say_progress(rows.size(), promises.size(), promise.name);
    rows.push_back({promise, promise.measure(kPolicy), promise.measure(simulation::kNative)});
  }
  say_progress(rows.size(), promises.size(), "");
  bool are_kept = true;
  for (const Row& row : rows) are_kept = are_kept && row.is_kept();
  if (as_json) {
    std::printf("%s\n", json_of(rows).dump(2).c_str());
  } else {
    std::printf(
        "%s\nThe policy (%s) runs in virtual time on a device that executes one command "
        "after the other. NATIVE: what is issued first runs first, as without quotas.\n",
        table_of(rows).c_str(), kPolicy);
  }
  return are_kept ? 0 : 1;
}

}  // namespace sluice::tool
