#include "server/broker/usage.h"

#include <gtest/gtest.h>

namespace sluice::server {
namespace {

using namespace std::chrono_literals;
using Time = Usage::Time;

Time at(std::chrono::milliseconds since) {
  return Time{} + 1h + since;
}

TEST(Usage, NothingIsKnownBeforeTheFirstLook) {
  const Usage usage;
  const auto recent = usage.recent(at(0ms), {5ms, 0ms});
  EXPECT_EQ(0ns, recent.window);
  EXPECT_EQ((Usage::Totals{0ns, 0ns}), recent.busy);
}

TEST(Usage, OfAYoungOneEverythingIsRecent) {
  Usage usage;
  usage.note(at(0ms), {});
  const auto recent = usage.recent(at(300ms), {100ms, 20ms});
  EXPECT_EQ(300ms, recent.window);
  EXPECT_EQ((Usage::Totals{100ms, 20ms}), recent.busy);
}

TEST(Usage, WhatIsLongAgoDoesNotCount) {
  // Broken: a program that stopped an hour ago is still shown as busy.
  Usage usage;
  Usage::Totals totals{0ms};
  for (auto t = 0ms; t <= 20'000ms; t += 1'000ms) {
    usage.note(at(t), totals);
    if (t < 10'000ms) totals[0] += 900ms;
  }
  EXPECT_EQ((Usage::Totals{0ns}), usage.recent(at(20'500ms), totals).busy);
}

TEST(Usage, TheWindowIsOneToTwoLooksLong) {
  Usage usage;
  for (auto t = 0ms; t <= 5'000ms; t += 1'000ms) usage.note(at(t), {Usage::Duration(t) / 2});
  for (const auto late : {1ms, 400ms, 999ms}) {
    const auto recent = usage.recent(at(5'000ms + late), {Usage::Duration(5'000ms + late) / 2});
    EXPECT_GE(recent.window, 1'000ms);
    EXPECT_LE(recent.window, 2'000ms);
    EXPECT_EQ(recent.window / 2, recent.busy[0]);
  }
}

TEST(Usage, FrequentLooksDoNotShortenTheWindow) {
  // Broken: a screen that refreshes ten times a second sees windows of a tenth of a second.
  Usage usage;
  for (auto t = 0ms; t <= 5'000ms; t += 5ms) usage.note(at(t), {t});
  const auto recent = usage.recent(at(5'000ms), {5'000ms});
  EXPECT_GE(recent.window, 1'000ms);
  EXPECT_LE(recent.window, 1'200ms);
}

TEST(Usage, NobodyWasBusyForLongerThanThereWasTime) {
  // Broken: a worker that lies about its time makes a percentage over 100, or a negative one.
  Usage usage;
  usage.note(at(0ms), {1h});
  EXPECT_EQ((Usage::Totals{500ms}), usage.recent(at(500ms), {2h}).busy);
  EXPECT_EQ((Usage::Totals{0ns}), usage.recent(at(500ms), {0h}).busy);
}

TEST(Usage, SumsCoverTheDevicesOfBoth) {
  Usage::Totals sum{1ms};
  add_to(sum, {2ms, 3ms});
  add_to(sum, {});
  EXPECT_EQ((Usage::Totals{3ms, 3ms}), sum);
}

}  // namespace
}  // namespace sluice::server
