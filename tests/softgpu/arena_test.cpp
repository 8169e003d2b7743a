// If these fail, allocations overlap, free memory is lost, or a kernel that runs over the end of a
// block is not caught.
#include "softgpu/memory/arena.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <random>

namespace sluice::softgpu {
namespace {

class CountingAccount final : public Account {
 public:
  explicit CountingAccount(std::size_t capacity_bytes) : capacity_bytes_(capacity_bytes) {}
  bool charge(std::size_t bytes) override {
    if (bytes > capacity_bytes_ - used_bytes_) return false;
    used_bytes_ += bytes;
    return true;
  }
  void refund(std::size_t bytes) override { used_bytes_ -= bytes; }
  std::size_t used_bytes() override { return used_bytes_; }
  std::size_t used_bytes_of(int) override { return used_bytes_; }
  [[nodiscard]] std::size_t capacity_bytes() const override { return capacity_bytes_; }

 private:
  std::size_t capacity_bytes_, used_bytes_ = 0;
};

class ArenaTest : public ::testing::Test {
 protected:
  ArenaTest()
      : arena_(std::move(
            *Arena::create(7, std::make_unique<CountingAccount>(std::size_t{64} << 20)))) {}
  /// Asks the kernel, so that no handler for faults is needed.
  static bool is_readable(std::uint64_t address) {
    int fds[2];
    EXPECT_EQ(0, ::pipe(fds));
    const bool is_ok = ::write(fds[1], reinterpret_cast<const void*>(address), 1) == 1;
    ::close(fds[0]);
    ::close(fds[1]);
    return is_ok;
  }
  std::unique_ptr<Arena> arena_;
  int first_ = 0, second_ = 0;
};

TEST_F(ArenaTest, BehindABlockNothingIsMapped) {
  const auto at = arena_->allocate(8192, &first_);
  ASSERT_TRUE(at);
  EXPECT_TRUE(is_readable(*at + 8191));
  EXPECT_FALSE(is_readable(*at + 8192));
  ASSERT_TRUE(arena_->free(*at));
  EXPECT_FALSE(is_readable(*at)) << "a freed block is still mapped";
}

TEST_F(ArenaTest, FullIsRefusedAndFreeMakesRoomAgain) {
  const auto most = arena_->allocate(std::size_t{60} << 20, &first_);
  ASSERT_TRUE(most);
  EXPECT_FALSE(arena_->allocate(std::size_t{5} << 20, &first_));
  ASSERT_TRUE(arena_->free(*most));
  EXPECT_EQ(0u, arena_->account().used_bytes());
  EXPECT_TRUE(arena_->allocate(std::size_t{64} << 20, &first_));
}

TEST_F(ArenaTest, WhatAnOwnerHadGoesWithIt) {
  const auto mine = arena_->allocate(100, &first_);
  const auto other = arena_->allocate(100, &second_);
  ASSERT_TRUE(mine && other);
  arena_->free_all(&first_);
  EXPECT_FALSE(arena_->find(*mine));
  ASSERT_TRUE(arena_->find(*other + 99));
  EXPECT_FALSE(arena_->find(*other + 100)) << "the end as asked for counts, not the page";
  EXPECT_EQ(&second_, arena_->find(*other)->owner);
}

TEST_F(ArenaTest, SmallBlocksRunOutOfMemoryBeforeMappings) {
  // The kernel allows a process 65,530 mappings; each small block once took two.
  std::vector<std::uint64_t> blocks;
  while (blocks.size() < 100000) {
    const auto at = arena_->allocate(1 + blocks.size() % 512, &first_);
    ASSERT_TRUE(at) << "after " << blocks.size();
    ASSERT_EQ(0u, *at % 256);
    blocks.push_back(*at);
  }
  for (const std::uint64_t at : blocks) ASSERT_TRUE(arena_->free(at));
  EXPECT_EQ(0u, arena_->account().used_bytes());
}

TEST_F(ArenaTest, RandomUseKeepsBlocksApartAndLosesNothing) {
  std::mt19937 random(4711);
  std::map<std::uint64_t, std::pair<std::size_t, int>> live;
  for (int step = 0; step < 4000; ++step) {
    if (live.size() < 40 && random() % 2 == 0) {
      const std::size_t bytes = 1 + random() % (random() % 8 == 0 ? 3u << 20 : 20000u);
      const auto at = arena_->allocate(bytes, &first_);
      if (!at) continue;
      ASSERT_EQ(0u, *at % 256);
      const int mark = static_cast<int>(random() % 256);
      std::memset(reinterpret_cast<void*>(*at), mark, bytes);
      live[*at] = {bytes, mark};
    } else if (!live.empty()) {
      const auto victim =
          std::next(live.begin(), static_cast<std::ptrdiff_t>(random() % live.size()));
      const auto* p = reinterpret_cast<const unsigned char*>(victim->first);
      ASSERT_EQ(victim->second.second, p[0]);
      ASSERT_EQ(victim->second.second, p[victim->second.first - 1]);
      ASSERT_TRUE(arena_->free(victim->first));
      live.erase(victim);
    }
  }
  for (const auto& [at, block] : live) ASSERT_TRUE(arena_->free(at));
  EXPECT_EQ(0u, arena_->account().used_bytes());
  EXPECT_TRUE(arena_->allocate(std::size_t{64} << 20, &first_)) << "the address space is in pieces";
}

}  // namespace
}  // namespace sluice::softgpu
