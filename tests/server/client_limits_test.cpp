// What clients wish of their slice: only ever less, under the names that others use, too.
#include "server/broker/client_limits.h"

#include <gtest/gtest.h>

namespace sluice::server {
namespace {

constexpr std::uint64_t kGiB = 1ull << 30;

TEST(ClientLimits, WithoutAWishNothingIsLowered) {
  const auto limits = parse_client_limits("");
  ASSERT_TRUE(limits.has_value());
  EXPECT_EQ(ClientLimits{}, *limits);
  EXPECT_EQ(8 * kGiB, limits->lowered(8 * kGiB, 0));
}

TEST(ClientLimits, TheSmallestOfAllWishesCounts) {
  const auto limits = parse_client_limits(
      "SLUICE_MEM_LIMIT=4GiB\nCUDA_DEVICE_MEMORY_LIMIT=3g\nCUDA_DEVICE_MEMORY_LIMIT_1=1024m\n"
      "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=2G,2=1G\nSLUICE_COMPUTE_LIMIT=80%\n"
      "CUDA_DEVICE_SM_LIMIT=50\nCUDA_MPS_ACTIVE_THREAD_PERCENTAGE=62.5\n");
  ASSERT_TRUE(limits.has_value()) << limits.error().message;
  EXPECT_EQ(2 * kGiB, limits->lowered(8 * kGiB, 0));
  EXPECT_EQ(1 * kGiB, limits->lowered(8 * kGiB, 1));
  EXPECT_EQ(3 * kGiB, limits->lowered(8 * kGiB, 3));
  EXPECT_EQ(kGiB / 2, limits->lowered(kGiB / 2, 0)) << "a wish never raises";
  EXPECT_EQ(0.5, limits->compute);
}

TEST(ClientLimits, ZeroIsNoLimitWhereOthersMeanThat) {
  const auto limits = parse_client_limits("CUDA_DEVICE_SM_LIMIT=0\nCUDA_DEVICE_MEMORY_LIMIT_0=0\n");
  ASSERT_TRUE(limits.has_value());
  EXPECT_EQ(8 * kGiB, limits->lowered(8 * kGiB, 0));
  EXPECT_EQ(1.0, limits->compute);
}

TEST(ClientLimits, AWishThatCannotBeReadIsAnErrorThatNamesIt) {
  for (const char* line :
       {"SLUICE_MEM_LIMIT=lots", "SLUICE_COMPUTE_LIMIT=0%", "SLUICE_COMPUTE_LIMIT=120%",
        "CUDA_DEVICE_SM_LIMIT=half", "CUDA_DEVICE_MEMORY_LIMIT_x=1g",
        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=1G", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=a=1G"}) {
    const auto limits = parse_client_limits(line);
    ASSERT_FALSE(limits.has_value()) << line;
    EXPECT_NE(std::string::npos, limits.error().message.find(line)) << limits.error().message;
  }
}

TEST(ClientLimits, WhatANewerClientSendsIsLeftOut) {
  EXPECT_EQ(ClientLimits{}, parse_client_limits("SLUICE_SOMETHING=1\nnonsense\n").value());
}

}  // namespace
}  // namespace sluice::server
