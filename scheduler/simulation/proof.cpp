#include "scheduler/simulation/proof.h"

#include "scheduler/simulation/simulation.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace sluice::scheduler::simulation {
namespace {

constexpr Time kFrom = 500ms, kTo = 10'500ms;

struct Mix {
  std::vector<Duration> kernels;
  std::vector<double> weights;

  [[nodiscard]] double entitled(std::size_t i) const {
    return weights[i] / std::accumulate(weights.begin(), weights.end(), 0.0);
  }
  [[nodiscard]] Duration longest() const {
    return *std::max_element(kernels.begin(), kernels.end());
  }
};

/// Kernels of 5 us to 50 ms, 2 to 16 tenants.
std::vector<Mix> mixes() {
  return {{{20us, 2ms, 200us}, {5, 3, 2}},
          {{5us, 5us}, {1, 1}},
          {{5us, 50ms}, {1, 1}},
          {{1ms, 1ms}, {7, 3}},
          {{50us, 1ms, 200us, 20us}, std::vector<double>(16, 1)},
          {{100us, 400us}, {9, 1}}};
}

Load kernels_of(Duration length) {
  return {.shortest = length, .longest = length};
}
constexpr Load kMixed{.shortest = 50us, .longest = 1ms};

/// The worst of all mixes; each is run once and looked at by `look`.
template <class Look>
double worst(std::string_view policy, Look look) {
  double found = 0;
  for (const Mix& mix : mixes()) {
    Simulation sim(policy);
    for (std::size_t i = 0; i < mix.weights.size(); ++i)
      sim.add(i + 1, {.weight = mix.weights[i]}, kernels_of(mix.kernels[i % mix.kernels.size()]));
    sim.run(kTo);
    found = std::max(found, look(sim, mix));
  }
  return found;
}

/// In points. A window cannot show less than one kernel's length more or less.
Promise share_error(const char* name, Duration window, double points) {
  return {name, "points", points, false, [window](std::string_view policy) {
            return worst(policy, [&](const Simulation& sim, const Mix& mix) {
              const double kernel =
                  static_cast<double>(mix.longest().count()) / static_cast<double>(window.count());
              double error = 0;
              for (std::size_t i = 0; i < mix.weights.size(); ++i)
                error = std::max({error, sim.most(i + 1, kFrom, kTo, window) - mix.entitled(i),
                                  mix.entitled(i) - sim.least(i + 1, kFrom, kTo, window)});
              return 100 * std::max(0.0, error - kernel);
            });
          }};
}

double unfairness(const Simulation& sim, const Mix& mix) {
  double sum = 0;
  double squares = 0;
  for (std::size_t i = 0; i < mix.weights.size(); ++i) {
    const double x = sim.use(i + 1, kFrom, kTo) / mix.weights[i];
    sum += x;
    squares += x * x;
  }
  return 1 - sum * sum / (static_cast<double>(mix.weights.size()) * squares);
}

double idle(std::string_view policy) {
  return worst(policy,
               [](const Simulation& sim, const Mix&) { return 100 * (1 - sim.use(kFrom, kTo)); });
}

constexpr double kLimits[] = {0.10, 0.25, 0.50, 0.75};

double limit_error(std::string_view policy) {
  double error = 0;
  for (const double limit : kLimits) {
    Simulation sim(policy);
    sim.add(1, {.limit = limit}, kMixed);
    sim.run(10s);
    error = std::max({error, std::abs(sim.most(1, 1s, 10s, 1s) - limit),
                      std::abs(sim.least(1, 1s, 10s, 1s) - limit)});
  }
  return 100 * error;
}

double limit_overshoot(std::string_view policy) {
  double over = 0;
  for (const double limit : kLimits) {
    Simulation sim(policy);
    sim.add(1, {.limit = limit}, kMixed);
    sim.run(10s);
    over = std::max(over, sim.most(1, 1s, 10s, 100ms) - limit);
  }
  return 100 * over;  // of 100 ms, so in milliseconds
}

double guarantee_kept(std::string_view policy) {
  Simulation sim(policy);
  sim.add(1, {.guarantee = 0.3, .weight = 1}, kMixed);
  for (TenantId i = 2; i <= 16; ++i) sim.add(i, {.weight = 8}, kMixed);
  sim.add(17, {.limit = 0.5, .cls = Class::kRealtime}, kMixed);
  sim.run(11s);
  return 100 * sim.least(1, 1s, 11s, 1s) / 0.3;
}

/// Milliseconds from `since` until the tenant has had so much of the time since then; at most a
/// second.
double time_until(const Simulation& sim, TenantId tenant, Time since, double use) {
  for (Duration t = 1ms; t < 1s; t += 1ms)
    if (sim.use(tenant, since, since + t) >= use) return static_cast<double>(t.count()) / 1e6;
  return 1000;
}

/// The others run kernels ten times as long: without a policy a newcomer gets a tenth.
double newcomer(std::string_view policy) {
  Simulation sim(policy);
  sim.add(1, {}, kernels_of(2ms));
  Load late = kernels_of(200us);
  late.from = 1s;
  sim.add(2, {}, late);
  sim.run(2s);
  return time_until(sim, 2, 1s, 0.9 * 0.5);
}

double change(std::string_view policy) {
  Simulation sim(policy);
  sim.add(1, {}, kernels_of(200us));
  sim.add(2, {}, kernels_of(200us));
  if (!sim.is_native())
    sim.at(1s, [&] { sim.dispatcher().set_share(2, {.weight = 9}, sim.now()); });
  sim.run(2s);
  return time_until(sim, 2, 1s, 0.9 * 0.9);
}

/// Of bursts of 20 kernels beside a greedy tenant: the 99th percentile beyond what they take alone,
/// the window and the greedy tenant's kernel, in milliseconds.
double burst_delay(std::string_view policy) {
  double found = 0;
  for (const Duration greedy : {200'000ns, 1'000'000ns, 5'000'000ns}) {
    Simulation sim(policy);
    sim.add(1, {.cls = Class::kInteractive},
            {.shortest = 50us, .longest = 50us, .depth = 20, .period = 50ms});
    sim.add(2, {}, kernels_of(greedy));
    sim.run(20s);
    const std::vector<Duration> times = sim.burst_times(1, 1s);
    if (times.empty()) return 1000;
    const Duration allowed = 20 * 50us + 10us + 500us + greedy + 50us;
    const Duration late = times[times.size() * 99 / 100] - allowed;
    found = std::max(found, static_cast<double>(late.count()) / 1e6);
  }
  return found;
}

/// The longest wait of eight tenants that are served in turn, in parts of what it may be.
double longest_wait(std::string_view policy) {
  constexpr TenantId kTenants = 8;
  Simulation sim(policy);
  for (TenantId i = 1; i <= kTenants; ++i)
    sim.add(i, {}, {.shortest = 100us, .longest = 2ms, .depth = 1});
  sim.run(10s);
  Duration longest{0};
  for (TenantId i = 1; i <= kTenants; ++i) longest = std::max(longest, sim.longest_wait(i));
  return static_cast<double>(longest.count()) / static_cast<double>((kTenants * 2ms + 6ms) / 1ns);
}

}  // namespace

std::vector<Promise> promises() {
  return {
      share_error("share error beyond one kernel, windows of 0.1 s", 100ms, 3),
      share_error("share error beyond one kernel, windows of 1 s", 1s, 1),
      share_error("share error beyond one kernel, windows of 10 s", 10s, 0.3),
      {"unfairness: 1 - Jain's index by weight", "", 0.001, false,
       [](std::string_view policy) { return worst(policy, unfairness); }},
      {"idle while somebody has work", "%", 1, false, idle},
      {"limit error of a lone tenant, windows of 1 s", "points", 1, false, limit_error},
      {"limit overshoot in 100 ms", "ms", 4, false, limit_overshoot},
      {"guarantee kept beside 15 greedy tenants and a realtime one", "%", 99, true, guarantee_kept},
      {"a newcomer has 90 % of its share after", "ms", 20, false, newcomer},
      {"a changed share is in effect (90 %) after", "ms", 20, false, change},
      {"burst of an interactive tenant: p99 beyond window and longest kernel", "ms", 0, false,
       burst_delay},
      {"longest wait of anybody, in parts of the bound", "", 1, false, longest_wait},
  };
}

}  // namespace sluice::scheduler::simulation
