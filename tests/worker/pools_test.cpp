// What memory pools hold is charged, in use or cached.
#include "server/worker/pools.h"

#include <gtest/gtest.h>

namespace {

using namespace sluice;
using server::LocalLedger;
using server::PoolCharges;

std::uint64_t used = 0, kept = ~0ull;

class Pools : public ::testing::Test {
 protected:
  Pools() {
    used = 0;
    kept = ~0ull;
    driver_.cuMemPoolGetAttribute = [](CUmemoryPool, CUmemPool_attribute, void* value) {
      *static_cast<cuuint64_t*>(value) = used;
      return CUDA_SUCCESS;
    };
    driver_.cuMemPoolTrimTo = [](CUmemoryPool, std::size_t bytes) {
      kept = bytes;
      return CUDA_SUCCESS;
    };
    charges_.add(pool_, 0);
  }
  std::uint64_t charged() { return ledger_.query(0).used_bytes; }

  DriverTable driver_{};
  LocalLedger ledger_{1000};
  PoolCharges charges_{driver_, ledger_};
  CUmemoryPool pool_ = reinterpret_cast<CUmemoryPool>(16);
};

TEST_F(Pools, FreedMemoryIsTrimmedAndRefunded) {
  EXPECT_TRUE(charges_.charge(pool_, 600));
  EXPECT_FALSE(charges_.charge(pool_, 600));
  charges_.freed(pool_, 0, 600);
  EXPECT_EQ(kept, 0u);
  EXPECT_EQ(charged(), 0u);
}

TEST_F(Pools, WhatAThresholdKeepsStaysCharged) {
  charges_.set_threshold(pool_, 500);
  EXPECT_TRUE(charges_.charge(pool_, 600));
  charges_.freed(pool_, 0, 600);
  EXPECT_EQ(charged(), 500u);
  EXPECT_EQ(kept, 500u);
  EXPECT_TRUE(charges_.charge(pool_, 700)) << "the cached bytes serve again";
  EXPECT_EQ(charged(), 700u);
}

TEST_F(Pools, CachedMemoryIsGivenUpBeforeAnAllocationIsRefused) {
  charges_.set_threshold(pool_, 1000);
  EXPECT_TRUE(charges_.charge(pool_, 600));
  charges_.freed(pool_, 0, 600);
  EXPECT_TRUE(charges_.release(0));
  EXPECT_EQ(charged(), 0u);
  EXPECT_FALSE(charges_.release(0)) << "there is nothing left";
}

TEST_F(Pools, ADestroyedPoolsMemoryIsRefundedAsItIsFreed) {
  EXPECT_TRUE(charges_.charge(pool_, 600));
  charges_.remove(pool_);
  EXPECT_EQ(charged(), 600u);
  charges_.freed(pool_, 0, 600);
  EXPECT_EQ(charged(), 0u);
}

}  // namespace
