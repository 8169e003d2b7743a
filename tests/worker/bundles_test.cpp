// What commands cost, measured in bundles.
#include "server/worker/bundles.h"

#include <gtest/gtest.h>

namespace sluice::test {
namespace {

using namespace std::chrono_literals;
using server::Bundles;

constexpr std::uint64_t kShort = 1, kLong = 2;

/// A device that executes one after the other, and tells at once.
class BundlesTest : public ::testing::Test {
 protected:
  static std::chrono::nanoseconds cost(std::uint64_t key) { return key == kLong ? 3ms : 100us; }
  void issue(std::initializer_list<std::uint64_t> keys) {
    for (const std::uint64_t key : keys) {
      bundles_.add(key, now_);
      device_free_ = std::max(device_free_, now_) + cost(key);
    }
    ASSERT_TRUE(bundles_.close());
  }
  void finish() {
    now_ = device_free_;
    bundles_.complete(now_);
  }

  Bundles bundles_;
  std::chrono::nanoseconds now_ = 1h, device_free_ = 1h;
};

TEST_F(BundlesTest, KnowsWhatACommandCostsOnceItHasRunAlone) {
  EXPECT_EQ(Bundles::kUnknown, bundles_.estimate(kLong));
  issue({kLong});
  EXPECT_EQ(Bundles::kUnknown, bundles_.under_way());
  finish();
  EXPECT_EQ(3ms, bundles_.estimate(kLong));
  EXPECT_EQ(0ns, bundles_.under_way());
  issue({kLong, kLong});
  EXPECT_EQ(6ms, bundles_.under_way());
  EXPECT_EQ(2u, bundles_.count());
}

TEST_F(BundlesTest, DividesATimeByWhatWasKnownBefore) {
  issue({kShort});
  finish();
  issue({kLong});
  finish();
  issue({kShort, kLong, kShort});
  finish();
  EXPECT_EQ(100us, bundles_.estimate(kShort));
  EXPECT_EQ(3ms, bundles_.estimate(kLong));
}

TEST_F(BundlesTest, CountsTheTimeSinceTheOneBeforeAndNotSinceItWasIssued) {
  // Broken: what waits in the device's queue is taken for work, and everybody looks too long.
  bundles_.add(kLong, now_);
  ASSERT_TRUE(bundles_.close());
  bundles_.add(kShort, now_);
  ASSERT_TRUE(bundles_.close());
  bundles_.complete(now_ + 3ms);
  bundles_.complete(now_ + 3ms + 100us);
  EXPECT_EQ(3ms, bundles_.estimate(kLong));
  EXPECT_EQ(100us, bundles_.estimate(kShort));
}

TEST_F(BundlesTest, APauseIsNoWork) {
  issue({kShort});
  finish();
  now_ += 1s;
  issue({kShort});
  finish();
  EXPECT_EQ(100us, bundles_.estimate(kShort));
}

TEST_F(BundlesTest, FollowsACostThatChanges) {
  issue({kShort});
  finish();
  for (int i = 0; i < 20; ++i) {
    bundles_.add(kShort, now_);
    ASSERT_TRUE(bundles_.close());
    now_ += 2ms;
    bundles_.complete(now_);
  }
  EXPECT_NEAR(2.0, std::chrono::duration<double>(bundles_.estimate(kShort)).count() * 1e3, 0.2);
}

TEST_F(BundlesTest, ABundleIsFullByTimeByNumberAndBesideTheUnknown) {
  EXPECT_FALSE(bundles_.is_full_for(kShort, 1ms, 1)) << "an empty one has room for anything";
  issue({kShort});
  finish();
  bundles_.add(kShort, now_);
  EXPECT_FALSE(bundles_.is_full_for(kShort, 1ms, 16));
  EXPECT_TRUE(bundles_.is_full_for(kShort, 100us, 16));
  EXPECT_TRUE(bundles_.is_full_for(kShort, 1ms, 1));
  EXPECT_TRUE(bundles_.is_full_for(kLong, 1ms, 16)) << "that one is measured alone";
  ASSERT_TRUE(bundles_.close());
  bundles_.add(kLong, now_);
  EXPECT_TRUE(bundles_.is_full_for(kShort, 1ms, 16)) << "and nothing joins it";
}

TEST_F(BundlesTest, ACompletionThatNobodyWaitsForChangesNothing) {
  bundles_.complete(now_);
  EXPECT_FALSE(bundles_.close());
  EXPECT_EQ(0u, bundles_.count());
}

}  // namespace
}  // namespace sluice::test
