// The meter: what tenants had of the devices, hour by hour.
#include "server/broker/meter.h"

#include <gtest/gtest.h>

namespace sluice::server {
namespace {

using namespace std::chrono_literals;
using store::Use;

const Meter::Key kKey{"a", "GPU-1"};
constexpr auto kStart = 490'000h;  ///< on the wall

/// Both clocks run; `wall_off` is what somebody has set the one on the wall ahead by.
Meter::Now at(std::chrono::nanoseconds since, std::chrono::nanoseconds wall_off = 0s) {
  return {since + 5s, kStart + since + wall_off};
}

Use sum_of(const std::vector<store::UsageRow>& rows) {
  Use sum;
  for (const auto& row : rows) sum += row.use;
  return sum;
}

TEST(Meter, AddsUpMemoryOverTheTimeThatItIsHeld) {
  Meter meter;
  meter.hold(at(0s), kKey, {100, 1000, 0.5});
  meter.hold(at(10s), kKey, {300, 1000, 0.5});
  meter.hold(at(12s), kKey, {});
  EXPECT_EQ((Use{0, 6, 1600, 12'000}), meter.totals(at(100s)).at(kKey));
}

TEST(Meter, DividesTimeAtTheFullHour) {
  Meter meter;
  meter.hold(at(59min), kKey, {1, 0, 0});
  const auto rows = meter.take(at(2h + 1min));
  ASSERT_EQ(3u, rows.size());
  EXPECT_EQ(490'000, rows[0].hour);
  EXPECT_EQ(60, rows[0].use.memory_byte_s);
  EXPECT_EQ(490'001, rows[1].hour);
  EXPECT_EQ(3600, rows[1].use.memory_byte_s);
  EXPECT_EQ(60, rows[2].use.memory_byte_s);
}

TEST(Meter, AnHourThatEndsExactlyNowLeavesNothingForTheNext) {
  Meter meter;
  meter.hold(at(0s), kKey, {1, 0, 0});
  const auto rows = meter.take(at(1h));
  ASSERT_EQ(1u, rows.size());
  EXPECT_EQ(490'000, rows[0].hour);
  EXPECT_EQ(3600, rows[0].use.memory_byte_s);
}

TEST(Meter, GivesAwayWhatItHasAddedOnlyOnce) {
  Meter meter;
  meter.hold(at(0s), kKey, {1, 0, 0});
  EXPECT_EQ(10, sum_of(meter.take(at(10s))).memory_byte_s);
  EXPECT_TRUE(meter.take(at(10s)).empty());
  EXPECT_EQ(5, sum_of(meter.take(at(15s))).memory_byte_s);
}

TEST(Meter, AWallClockThatIsSetNeitherMakesNorLosesTime) {
  // Broken: a step of the clock by NTP bills days, or makes totals go down.
  Meter meter;
  meter.hold(at(0s), kKey, {1, 0, 0});
  EXPECT_EQ(10, sum_of(meter.take(at(10s, 48h))).memory_byte_s);
  EXPECT_EQ(10, sum_of(meter.take(at(20s, -48h))).memory_byte_s);
}

TEST(Meter, ChargesTheGrowthOfComputingTimeAndNeverTakesAnyBack) {
  Meter meter({{kKey, Use{7, 0, 0, 0}}});
  meter.compute(at(1s), kKey, 2s);
  meter.compute(at(2s), kKey, 1s);
  EXPECT_EQ(9, meter.totals(at(2s)).at(kKey).gpu_s);
  meter.compute(at(3s), kKey, 3s);
  EXPECT_EQ(10, meter.totals(at(3s)).at(kKey).gpu_s) << "from the server before: 7";
  EXPECT_EQ(3, sum_of(meter.take(at(3s))).gpu_s);
}

TEST(Meter, KeepsTenantsAndDevicesApart) {
  Meter meter;
  meter.hold(at(0s), {"a", "GPU-1"}, {1, 0, 0});
  meter.hold(at(0s), {"a", "GPU-2"}, {2, 0, 0});
  meter.hold(at(0s), {"b", "GPU-1"}, {4, 0, 0});
  const auto& totals = meter.totals(at(1s));
  EXPECT_EQ(1, totals.at({"a", "GPU-1"}).memory_byte_s);
  EXPECT_EQ(2, totals.at({"a", "GPU-2"}).memory_byte_s);
  EXPECT_EQ(4, totals.at({"b", "GPU-1"}).memory_byte_s);
}

}  // namespace
}  // namespace sluice::server
