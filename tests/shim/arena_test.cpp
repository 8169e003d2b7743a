// What the program frees is used again, never two things at once, and never before it may be.
#include "shim/arena.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace sluice::test {
namespace {

using shim::Arena;
using shim::kGranuleBytes;
using shim::Slabs;

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr CUdeviceptr kFirst = 0x7'0000'0000;

class ArenaTest : public ::testing::Test {
 protected:
  CUdeviceptr block(std::size_t bytes) {
    const CUdeviceptr at = next_;
    next_ += Arena::block_bytes(bytes);
    ++blocks_;
    return at;
  }
  CUdeviceptr allocate(std::size_t bytes, Arena::Order order = {}) {
    const auto known = arena_.take(bytes, order);
    return known ? *known : arena_.take_from(block(bytes), bytes);
  }

  Arena arena_{64 * kMiB};
  CUdeviceptr next_ = kFirst;
  int blocks_ = 0;
};

TEST_F(ArenaTest, WhatWasFreedIsUsedAgain) {
  const CUdeviceptr p = allocate(5 * kMiB);
  EXPECT_TRUE(arena_.free(p, 0));
  EXPECT_EQ(p, allocate(5 * kMiB));
  EXPECT_EQ(1, blocks_);
}

TEST_F(ArenaTest, AnotherSizeNeedsAnotherBlock) {
  // A block given back in part would stay charged as a whole.
  EXPECT_TRUE(arena_.free(allocate(8 * kMiB), 0));
  EXPECT_FALSE(arena_.take(4 * kMiB).has_value());
  EXPECT_TRUE(arena_.take(7 * kMiB).has_value()) << "the same number of granules";
}

TEST_F(ArenaTest, SmallAllocationsShareASlab) {
  const CUdeviceptr a = allocate(1);
  const CUdeviceptr b = allocate(1000);
  EXPECT_EQ(0u, a % 512);
  EXPECT_EQ(0u, b % 512);
  EXPECT_NE(a, b);
  for (std::size_t i = 3; i < kGranuleBytes / 512; ++i) allocate(512);
  EXPECT_EQ(1, blocks_);
  allocate(512);
  EXPECT_EQ(2, blocks_);
}

TEST_F(ArenaTest, ASlabThatIsEmptyIsABlockAgain) {
  const CUdeviceptr a = allocate(700);
  const CUdeviceptr b = allocate(700);
  EXPECT_EQ(0u, arena_.spare_bytes());
  EXPECT_TRUE(arena_.free(a, 0));
  EXPECT_TRUE(arena_.take_out_free().empty());
  EXPECT_TRUE(arena_.free(b, 0));
  EXPECT_EQ(kGranuleBytes, arena_.spare_bytes());
  EXPECT_EQ(std::vector{kFirst}, arena_.take_out_free());
  EXPECT_EQ(0u, arena_.spare_bytes());
}

TEST_F(ArenaTest, NothingIsGivenOutThatEarlierCommandsMayUse) {
  const CUdeviceptr p = allocate(4 * kMiB);
  EXPECT_TRUE(arena_.free(p, 17));
  EXPECT_EQ(4 * kMiB, arena_.spare_bytes()) << "to the program it is free";
  EXPECT_FALSE(arena_.take(4 * kMiB).has_value());
  EXPECT_TRUE(arena_.is_waited_for(3 * kMiB));
  EXPECT_FALSE(arena_.is_waited_for(8 * kMiB)) << "waiting would not help";
  EXPECT_EQ(17u, arena_.busy_until());
  arena_.complete(16);
  EXPECT_FALSE(arena_.take(4 * kMiB).has_value());
  arena_.complete(17);
  EXPECT_EQ(0u, arena_.busy_until());
  EXPECT_EQ(p, arena_.take(4 * kMiB));
}

TEST_F(ArenaTest, APartOfASlabWaitsToo) {
  const CUdeviceptr p = allocate(kMiB);
  allocate(kMiB);
  EXPECT_TRUE(arena_.free(p, 5));
  EXPECT_NE(p, allocate(kMiB));
  arena_.complete(5);
  EXPECT_EQ(p, allocate(kMiB));
}

TEST_F(ArenaTest, InTheOrderOfOneStreamMemoryIsUsedAgainAtOnce) {
  const CUdeviceptr block = allocate(4 * kMiB);
  const CUdeviceptr part = allocate(1000);
  EXPECT_TRUE(arena_.free(block, 9, 1));
  EXPECT_TRUE(arena_.free(part, 9, 1));
  EXPECT_FALSE(arena_.take(4 * kMiB, 2).has_value()) << "another stream comes at any time";
  EXPECT_FALSE(arena_.take(4 * kMiB).has_value());
  EXPECT_NE(part, *arena_.take(1000, 2));
  EXPECT_EQ(block, arena_.take(4 * kMiB, 1));
  EXPECT_EQ(part, arena_.take(1000, 1));
  arena_.complete(9);
  EXPECT_FALSE(arena_.take(4 * kMiB, 1).has_value()) << "it was taken";
  EXPECT_TRUE(arena_.free(block, 12, 1));
  arena_.complete(12);
  EXPECT_EQ(block, arena_.take(4 * kMiB, 2));
  EXPECT_FALSE(arena_.take(4 * kMiB, 1).has_value());
}

TEST_F(ArenaTest, WhatExceedsTheBoundIsNotKept) {
  const CUdeviceptr big = allocate(65 * kMiB);
  const CUdeviceptr some = allocate(40 * kMiB);
  const CUdeviceptr more = allocate(40 * kMiB);
  EXPECT_FALSE(arena_.free(big, 9)) << "the worker waits for the commands itself";
  EXPECT_TRUE(arena_.free(some, 9));
  EXPECT_FALSE(arena_.is_too_much());
  EXPECT_FALSE(arena_.free(more, 9));
  EXPECT_EQ(40 * kMiB, arena_.spare_bytes());
}

TEST_F(ArenaTest, MoreThanTheBoundIsNoticedWhereNothingWaits) {
  const CUdeviceptr some = allocate(40 * kMiB);
  const CUdeviceptr more = allocate(40 * kMiB);
  EXPECT_TRUE(arena_.free(some, 0));
  EXPECT_TRUE(arena_.free(more, 0));
  EXPECT_TRUE(arena_.is_too_much());
  EXPECT_EQ(2u, arena_.take_out_free().size());
}

TEST_F(ArenaTest, ABlockOfItsOwnGoesBackWhenItIsFreed) {
  arena_.take_whole(kFirst, 700 * 1024);
  EXPECT_EQ(0u, arena_.spare_bytes());
  EXPECT_FALSE(arena_.free(kFirst, 0));
  EXPECT_FALSE(arena_.free(kFirst, 0)) << "of which it then knows nothing";
}

TEST_F(ArenaTest, NoTwoAllocationsOverlapWhateverTheProgramDoes) {
  std::mt19937 random(7);
  std::map<CUdeviceptr, std::size_t> live;
  std::uint64_t seq = 0;
  for (int step = 0; step < 20'000; ++step) {
    if (random() % 2 == 0 || live.empty()) {
      const std::size_t bytes =
          random() % 8 == 0 ? 1 + random() % (9 * kMiB) : 1 + random() % 70'000;
      const CUdeviceptr p =
          allocate(bytes, random() % 2 == 0 ? Arena::Order(random() % 3) : Arena::Order());
      const auto next = live.lower_bound(p);
      ASSERT_TRUE(next == live.end() || p + bytes <= next->first);
      ASSERT_TRUE(next == live.begin() || std::prev(next)->first + std::prev(next)->second <= p);
      live[p] = bytes;
    } else {
      auto some = std::next(live.begin(), static_cast<long>(random() % live.size()));
      static_cast<void>(
          arena_.free(some->first, random() % 3 == 0 ? ++seq : 0,
                      random() % 2 == 0 ? Arena::Order(random() % 3) : Arena::Order()));
      live.erase(some);
    }
    if (random() % 16 == 0) arena_.complete(seq);
    if (arena_.is_too_much()) arena_.take_out_free();
  }
  for (const auto& [p, bytes] : live) static_cast<void>(arena_.free(p, 0));
  arena_.complete(seq);
  arena_.take_out_free();
  EXPECT_EQ(0u, arena_.spare_bytes()) << "every block went back";
}

TEST(SlabsTest, TakesTheSmallestStretchThatIsLongEnough) {
  Slabs slabs;
  slabs.add(kFirst);
  const CUdeviceptr a = *slabs.take(4096);
  const CUdeviceptr b = *slabs.take(512);
  const CUdeviceptr c = *slabs.take(1024);
  slabs.take(512);
  slabs.give(a, 4096);
  slabs.give(c, 1024);
  EXPECT_EQ(c, *slabs.take(600));
  EXPECT_EQ(a, *slabs.take(600));
  EXPECT_EQ(b, a + 4096);
}

TEST(SlabsTest, NeighboursJoinButNotAcrossSlabs) {
  Slabs slabs;
  slabs.add(kFirst);
  slabs.add(kFirst + kGranuleBytes);
  const CUdeviceptr a = *slabs.take(kGranuleBytes);
  const CUdeviceptr b = *slabs.take(kGranuleBytes / 2);
  EXPECT_FALSE(slabs.take(kGranuleBytes).has_value());
  EXPECT_EQ(a, slabs.give(a, kGranuleBytes));
  EXPECT_EQ(b, slabs.give(b, kGranuleBytes / 2));
  EXPECT_FALSE(slabs.take(1).has_value()) << "both are blocks again";
}

}  // namespace
}  // namespace sluice::test
