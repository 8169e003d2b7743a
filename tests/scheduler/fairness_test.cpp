// What tenants are promised, proved in virtual time: shares, limits, guarantees, latency.
#include "scheduler/simulation/simulation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

namespace sluice::test {
namespace {

using namespace scheduler::simulation;
using scheduler::Class;
using scheduler::Duration;
using scheduler::Share;
using scheduler::TenantId;
using scheduler::Time;

Share weight(double value) {
  return {.weight = value};
}
Share limit(double value) {
  return {.limit = value};
}
Load kernels_of(Duration length) {
  return {.shortest = length, .longest = length};
}

/// A window cannot show less than one kernel's length more or less.
double allowed(double points, Duration longest, Duration window) {
  return points / 100 + static_cast<double>(longest.count()) / static_cast<double>(window.count());
}

struct Mix {
  const char* name;
  std::vector<Duration> kernels;
  std::vector<double> weights;
};
void PrintTo(const Mix& mix, std::ostream* out) {
  *out << mix.name;
}

class Shares : public ::testing::TestWithParam<Mix> {
 protected:
  [[nodiscard]] double entitled(std::size_t i) const {
    const auto& weights = GetParam().weights;
    return weights[i] / std::accumulate(weights.begin(), weights.end(), 0.0);
  }
};

TEST_P(Shares, FollowTheWeightsWhateverTheKernelsLength) {
  const Mix& mix = GetParam();
  const Duration longest = *std::max_element(mix.kernels.begin(), mix.kernels.end());
  Simulation sim;
  for (std::size_t i = 0; i < mix.weights.size(); ++i)
    sim.add(i + 1, weight(mix.weights[i]), kernels_of(mix.kernels[i % mix.kernels.size()]));
  const Time from = 500ms;
  const Time to = 10'500ms;
  sim.run(to);
  const std::pair<Duration, double> windows[] = {{100ms, 3}, {1s, 1}, {10s, 0.3}};
  for (const auto& [window, points] : windows)
    for (std::size_t i = 0; i < mix.weights.size(); ++i) {
      const double most = sim.most(i + 1, from, to, window) - entitled(i);
      const double least = sim.least(i + 1, from, to, window) - entitled(i);
      EXPECT_LE(most, allowed(points, longest, window)) << "tenant " << i + 1;
      EXPECT_GE(least, -allowed(points, longest, window)) << "tenant " << i + 1;
    }
  EXPECT_GE(sim.use(from, to), 0.99) << "the device idles although there is work";
}

TEST_P(Shares, AreFairByJainsIndex) {
  const Mix& mix = GetParam();
  Simulation sim;
  for (std::size_t i = 0; i < mix.weights.size(); ++i)
    sim.add(i + 1, weight(mix.weights[i]), kernels_of(mix.kernels[i % mix.kernels.size()]));
  sim.run(10'500ms);
  double sum = 0;
  double squares = 0;
  for (std::size_t i = 0; i < mix.weights.size(); ++i) {
    const double x = sim.use(i + 1, 500ms, 10'500ms) / mix.weights[i];
    sum += x;
    squares += x * x;
  }
  EXPECT_GE(sum * sum / (static_cast<double>(mix.weights.size()) * squares), 0.999);
}

INSTANTIATE_TEST_SUITE_P(
    Mixes, Shares,
    ::testing::Values(Mix{"short_against_long", {20us, 2ms, 200us}, {5, 3, 2}},
                      Mix{"tiny", {5us, 5us}, {1, 1}},
                      Mix{"tiny_against_50ms", {5us, 50ms}, {1, 1}},
                      Mix{"seventy_thirty", {1ms, 1ms}, {7, 3}},
                      Mix{"sixteen", {50us, 1ms, 200us, 20us}, std::vector<double>(16, 1)},
                      Mix{"nine_to_one", {100us, 400us}, {9, 1}}),
    [](const auto& mix) { return mix.param.name; });

TEST(Limit, HoldsALoneTenant) {
  for (const double fraction : {0.10, 0.25, 0.50, 0.75}) {
    Simulation sim;
    sim.add(1, limit(fraction), {.shortest = 50us, .longest = 1ms});
    sim.run(10s);
    EXPECT_NEAR(fraction, sim.most(1, 1s, 10s, 1s), 0.01);
    EXPECT_NEAR(fraction, sim.least(1, 1s, 10s, 1s), 0.01);
    // In flight there is at most a window of 4 ms.
    EXPECT_LE(sim.most(1, 1s, 10s, 100ms), fraction + 0.04);
  }
}

TEST(Limit, HoldsBesideAGreedyTenant) {
  Simulation sim;
  sim.add(1, {.limit = 0.1, .weight = 8}, {.shortest = 50us, .longest = 1ms});
  sim.add(2, weight(1), {.shortest = 50us, .longest = 1ms});
  sim.run(10s);
  EXPECT_NEAR(0.1, sim.use(1, 1s, 10s), 0.01);
  EXPECT_NEAR(0.9, sim.use(2, 1s, 10s), 0.02) << "what one may not use the other gets";
}

TEST(Limit, IsPaidBackAfterAKernelThatWasMuchTooLong) {
  Simulation sim;
  sim.add(1, limit(0.1), kernels_of(50ms));
  sim.run(20s);
  EXPECT_NEAR(0.1, sim.use(1, 1s, 20s), 0.01) << "50 ms at 10 % lock out for 450 ms";
}

TEST(Guarantee, HoldsBesideFifteenGreedyTenantsAndARealtimeOne) {
  Simulation sim;
  sim.add(1, {.guarantee = 0.3, .weight = 1}, {.shortest = 50us, .longest = 1ms});
  for (TenantId i = 2; i <= 16; ++i) sim.add(i, weight(8), {.shortest = 50us, .longest = 1ms});
  sim.add(17, {.limit = 0.5, .cls = Class::kRealtime}, {.shortest = 50us, .longest = 1ms});
  sim.run(11s);
  EXPECT_GE(sim.least(1, 1s, 11s, 1s), 0.99 * 0.3);
}

TEST(Guarantee, HoldsAfterSpareTimeWasUsed) {
  // Service that was no claim on the guarantee must not count against it.
  Simulation sim;
  sim.add(1, {.guarantee = 0.3, .weight = 1}, {.shortest = 50us, .longest = 1ms});
  sim.add(2, weight(8), {.shortest = 50us, .longest = 1ms, .from = 2s});
  sim.run(5s);
  EXPECT_GE(sim.use(1, 1s, 2s), 0.98);
  EXPECT_GE(sim.use(1, 2s, 2100ms), 0.27);
  EXPECT_GE(sim.least(1, 2100ms, 5s, 1s), 0.297);
}

TEST(Newcomer, GetsItsShareWithin20Milliseconds) {
  Simulation sim;
  sim.add(1, weight(1), kernels_of(200us));
  sim.add(2, weight(1), {.shortest = 200us, .longest = 200us, .from = 1s});
  sim.run(2s);
  EXPECT_GE(sim.use(2, 1s, 1020ms), 0.9 * 0.5);
}

TEST(Newcomer, DoesNotPushOthersAwayWithOldClaims) {
  Simulation sim;
  for (TenantId i = 1; i <= 4; ++i) sim.add(i, weight(1), kernels_of(200us));
  sim.add(5, weight(1), {.shortest = 200us, .longest = 200us, .from = 2s});
  sim.run(3s);
  EXPECT_LE(sim.use(5, 2s, 2050ms), 0.2 + 0.1 + 0.02) << "at most 5 ms of credit in 50 ms";
  EXPECT_NEAR(0.2, sim.use(5, 2050ms, 3s), 0.01);
}

TEST(Newcomer, IsOwedNothingBecauseAnotherIsThrottled) {
  // The limited tenant's old tag must not drag the virtual time back.
  Simulation sim;
  sim.add(1, {.limit = 0.05, .weight = 8}, kernels_of(200us));
  sim.add(2, weight(1), kernels_of(200us));
  sim.add(3, weight(1), {.shortest = 200us, .longest = 200us, .from = 2s});
  sim.run(3s);
  EXPECT_LE(sim.use(3, 2s, 2100ms), 0.55);
  EXPECT_NEAR(sim.use(2, 2100ms, 3s), sim.use(3, 2100ms, 3s), 0.02);
}

TEST(Newcomer, OfAClassThatWasStarvedIsServedLikeItsPeers) {
  Simulation sim;
  sim.add(1, {.limit = 0.8, .cls = Class::kInteractive}, kernels_of(200us));
  sim.add(2, {.cls = Class::kBestEffort}, kernels_of(200us));
  sim.add(3, {.cls = Class::kBestEffort}, {.shortest = 200us, .longest = 200us, .from = 5s});
  sim.run(7s);
  EXPECT_NEAR(0.1, sim.use(2, 5500ms, 7s), 0.02);
  EXPECT_NEAR(0.1, sim.use(3, 5500ms, 7s), 0.02);
}

TEST(ShareChange, TakesEffectWithin20Milliseconds) {
  Simulation sim;
  sim.add(1, weight(1), kernels_of(200us));
  sim.add(2, weight(1), kernels_of(200us));
  sim.at(1s, [&] { sim.dispatcher().set_share(2, weight(9), sim.now()); });
  sim.run(2s);
  EXPECT_NEAR(0.5, sim.use(2, 500ms, 1s), 0.01);
  EXPECT_NEAR(0.9, sim.use(2, 1020ms, 1120ms), 0.03);
  EXPECT_NEAR(0.9, sim.use(2, 1020ms, 2s), 0.01);
}

TEST(Departure, GivesTheRestToTheOthersAtOnce) {
  Simulation sim;
  sim.add(1, weight(1), kernels_of(200us));
  sim.add(2, weight(9), {.shortest = 200us, .longest = 200us, .until = 1s});
  sim.run(2s);
  EXPECT_NEAR(0.1, sim.use(1, 500ms, 1s), 0.01);
  EXPECT_GE(sim.use(1, 1020ms, 1120ms), 0.97);
}

TEST(Latency, OfABurstIsTheWindowAndTheLongestKernelAtMost) {
  for (const Duration greedy : {200'000ns, 1'000'000ns, 5'000'000ns}) {
    Simulation sim;
    sim.add(1, {.cls = Class::kInteractive},
            {.shortest = 50us, .longest = 50us, .depth = 20, .period = 50ms});
    sim.add(2, weight(1), kernels_of(greedy));
    sim.run(20s);
    // What was issued before anything had run was never seen: two at a time get in.
    EXPECT_LE(sim.burst_times(1, 0s).back(), 20 * 50us + 10us + 2 * greedy + 50us);
    const std::vector<Duration> times = sim.burst_times(1, 1s);
    ASSERT_GE(times.size(), 370u);
    const Duration alone = 20 * 50us + 10us;
    EXPECT_LE(times[times.size() * 99 / 100], alone + 500us + greedy + 50us)
        << "beside kernels of " << greedy.count() << " ns";
    EXPECT_GE(sim.use(0s, 20s), 0.98);
  }
}

TEST(Latency, OfNobodyGrowsWithoutBound) {
  constexpr TenantId kTenants = 8;
  Simulation sim;
  for (TenantId i = 1; i <= kTenants; ++i)
    sim.add(i, weight(1), {.shortest = 100us, .longest = 2ms, .depth = 1});
  sim.run(10s);
  for (TenantId i = 1; i <= kTenants; ++i)
    EXPECT_LE(sim.longest_wait(i), kTenants * 2ms + 4ms + 2ms) << "tenant " << i;
}

TEST(StrictSlice, GivesNobodyMoreThanItsSlice) {
  Simulation sim("strict-slice");
  sim.add(1, weight(3), kernels_of(200us));
  sim.add(2, weight(1), {.shortest = 200us, .longest = 200us, .until = 5s});
  sim.run(10s);
  EXPECT_NEAR(0.75, sim.use(1, 1s, 5s), 0.01);
  EXPECT_NEAR(0.25, sim.use(2, 1s, 5s), 0.01);
  EXPECT_NEAR(0.75, sim.use(1, 6s, 10s), 0.01) << "alone, it still gets its slice only";
}

TEST(Priority, ServesTheHighestClassFirstAndFairlyInIt) {
  Simulation sim("priority");
  sim.add(1, {.limit = 0.6, .weight = 2, .cls = Class::kRealtime}, kernels_of(200us));
  sim.add(2, {.limit = 0.6, .weight = 1, .cls = Class::kRealtime}, kernels_of(200us));
  sim.add(3, {.guarantee = 0.3, .cls = Class::kStandard}, kernels_of(200us));
  sim.run(5s);
  EXPECT_NEAR(0.6, sim.use(1, 1s, 5s), 0.01);
  EXPECT_NEAR(0.4, sim.use(2, 1s, 5s), 0.01);
  EXPECT_LE(sim.use(3, 1s, 5s), 0.01) << "a guarantee does not go before a higher class here";
}

TEST(Cost, OfShortKernelsIsLearnedSoThatTheDeviceDoesNotIdle) {
  // Taken for 50 us each, 80 kernels of 5 us fill the window; it must widen with what is learned.
  Simulation sim("fair-share", 30us);
  sim.add(1, weight(1), kernels_of(20us));
  sim.run(2s);
  EXPECT_GE(sim.use(1s, 2s), 0.99);
}

}  // namespace
}  // namespace sluice::test
