// Kernels as nvcc compiles them give what the same source gives on the host.
#include "tests/ptx/harness.h"
#include "tests/ptx/host_kernel.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <random>
#include <sstream>

#ifdef HAS_NVCC
namespace {
// The kernels are C++ that nvcc and g++ both take; only nvcc's warnings are theirs.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#include "tests/ptx/kernels/math.cu"
#pragma GCC diagnostic pop
}  // namespace

namespace sluice::softgpu::test {
namespace {

std::string ptx_of(const std::string& kernel) {
  std::ifstream file(std::string(KERNELS) + "/" + kernel + ".ptx");
  EXPECT_TRUE(file.is_open());
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

template <class F>
void on_host(int n, F kernel) {
  blockDim.x = 1;
  for (blockIdx.x = 0; blockIdx.x < n; ++blockIdx.x) kernel();
}

constexpr int kCount = 10000;

template <class T>
std::vector<T> random_values() {
  std::mt19937 random(7);
  std::vector<T> out(kCount);
  for (T& v : out) v = static_cast<T>(random()) / static_cast<T>(200000000) - T{10};
  return out;
}

/// CUDA's functions and glibc's may each be off by a few units in the last place.
template <class T>
void expect_close(const std::vector<T>& actual, const std::vector<T>& expected, T tolerance) {
  for (std::size_t k = 0; k < actual.size(); ++k)
    ASSERT_LE(std::abs(actual[k] - expected[k]),
              tolerance * std::max(T{0.01f}, std::abs(expected[k])))
        << k << ": " << actual[k] << ", expected " << expected[k];
}

TEST(NvccKernels, AddVectors) {
  Loaded module(ptx_of("math"));
  const std::vector<float> a = random_values<float>();
  std::vector<float> c(kCount);
  ASSERT_EQ(module.run("vector_add", {79, 1, 1}, {128, 1, 1}, a.data(), a.data(), c.data(), kCount)
                .outcome,
            LaunchOutcome::kOk);
  for (std::size_t k = 0; k < c.size(); ++k) ASSERT_EQ(c[k], a[k] + a[k]);
}

TEST(NvccKernels, ComputeFloatMathLikeTheHost) {
  Loaded module(ptx_of("math"));
  const std::vector<float> in = random_values<float>();
  std::vector<float> actual(8 * kCount);
  std::vector<float> expected(8 * kCount);
  const LaunchResult result =
      module.run("math", {79, 1, 1}, {128, 1, 1}, in.data(), actual.data(), kCount);
  ASSERT_EQ(result.outcome, LaunchOutcome::kOk) << result.detail;
  on_host(kCount, [&] { ::math(in.data(), expected.data(), kCount); });
  expect_close(actual, expected, 1e-6f);
}

TEST(NvccKernels, ComputeDoubleMathLikeTheHost) {
  Loaded module(ptx_of("math"));
  const std::vector<double> in = random_values<double>();
  std::vector<double> actual(4 * kCount);
  std::vector<double> expected(4 * kCount);
  const LaunchResult result =
      module.run("math64", {79, 1, 1}, {128, 1, 1}, in.data(), actual.data(), kCount);
  ASSERT_EQ(result.outcome, LaunchOutcome::kOk) << result.detail;
  on_host(kCount, [&] { ::math64(in.data(), expected.data(), kCount); });
  expect_close(actual, expected, 1e-14);
}

TEST(NvccKernels, ComputeIntegersLikeTheHost) {
  Loaded module(ptx_of("math"));
  std::mt19937 random(3);
  std::vector<unsigned> in(kCount);
  for (unsigned& v : in) v = static_cast<unsigned>(random());
  std::vector<unsigned long long> actual(kCount);
  std::vector<unsigned long long> expected(kCount);
  const LaunchResult result =
      module.run("integers", {79, 1, 1}, {128, 1, 1}, in.data(), actual.data(), kCount);
  ASSERT_EQ(result.outcome, LaunchOutcome::kOk) << result.detail;
  on_host(kCount, [&] { ::integers(in.data(), expected.data(), kCount); });
  EXPECT_EQ(actual, expected);
}

TEST(NvccKernels, CountWithAtomicsFromAllBlocks) {
  Loaded module(ptx_of("atomics"));
  std::mt19937 random(3);
  std::vector<unsigned> in(kCount);
  for (unsigned& v : in) v = static_cast<unsigned>(random() >> 4);
  std::vector<unsigned> histogram(22);
  std::vector<unsigned> expected(22);
  histogram[17] = expected[17] = 0x7FFFFFFF;
  const LaunchResult result =
      module.run("counts", {79, 1, 1}, {128, 1, 1}, histogram.data(), in.data(), kCount);
  ASSERT_EQ(result.outcome, LaunchOutcome::kOk) << result.detail;
  for (const unsigned v : in) {
    ++expected[v & 15];
    expected[16] = std::max(expected[16], v);
    expected[17] = std::min(expected[17], v);
    expected[19] ^= v;
  }
  const float sum = kCount / 2;
  std::memcpy(&expected[20], &sum, 4);
  expected[18] = kCount % 10;
  expected[21] = 2 * kCount;
  EXPECT_EQ(histogram, expected);
  unsigned counter = 0;
  std::memcpy(&counter, module.global("counter"), 4);
  EXPECT_EQ(counter, 5u + kCount);
}

TEST(NvccKernels, CallFunctionsThatCallThemselves) {
  Loaded module(ptx_of("atomics"));
  std::vector<float> out(12);
  const LaunchResult result = module.run("calls", {}, {12, 1, 1}, out.data(), 12);
  ASSERT_EQ(result.outcome, LaunchOutcome::kOk) << result.detail;
  const float table[4] = {1, 20, 300, 4000};
  for (int k = 0; k < 12; ++k) {
    float expected = 1;
    for (int n = 1; n <= k % 6; ++n) expected = 0.5f * expected + table[n & 3];
    EXPECT_EQ(out[static_cast<std::size_t>(k)], expected);
  }
}

TEST(NvccKernels, GiveEveryBlockItsOwnSharedMemory) {
  Loaded module(ptx_of("atomics"));
  std::vector<unsigned> out(500);
  LaunchConfig config;
  config.grid.x = 500;
  config.block.x = 32;
  config.dynamic_shared_bytes = 4096;
  Loaded::push(&config.params, out.data());
  const LaunchResult result = module.run("in_shared", config);
  ASSERT_EQ(result.outcome, LaunchOutcome::kOk) << result.detail;
  for (const unsigned v : out) ASSERT_EQ(v, 496u * 1000 + 32);
}

TEST(NvccKernels, LoadAndStoreVectors) {
  Loaded module(ptx_of("atomics"));
  alignas(16) float in[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  alignas(16) float out[8] = {};
  ASSERT_EQ(module.run("vectors", {}, {2, 1, 1}, &in[0], &out[0]).outcome, LaunchOutcome::kOk);
  EXPECT_EQ(std::vector<float>(out, out + 8), (std::vector<float>{4, 3, 2, 1, 8, 7, 6, 5}));
}

}  // namespace
}  // namespace sluice::softgpu::test
#endif
