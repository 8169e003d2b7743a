// Launches: parameters, limits, faults.
#include "tests/cuda/fixture.h"

#include <atomic>

namespace sluice::test {

class LaunchTest : public KernelTest {};

TEST_F(LaunchTest, EveryThreadRunsOnce) {
  unsigned n = 70001;
  CUdeviceptr p = words(n);
  ASSERT_OK(launch("add_one", {&p, &n}, (n + 127) / 128, 128));
  std::vector<unsigned> back(n);
  ASSERT_OK(cuMemcpyDtoH(back.data(), p, n * 4));
  for (unsigned i = 0; i < n; ++i) ASSERT_EQ(1u, back[i]) << "word " << i;
}

TEST_F(LaunchTest, ParametersAreCopiedDuringTheCall) {
  CUdeviceptr p = words(1);
  unsigned value = 123;
  ASSERT_OK(launch("set_value", {&p, &value}));
  value = 456;
  EXPECT_EQ(123u, read_word(p));
}

TEST_F(LaunchTest, ImpossibleShapesAreRefusedAtTheCall) {
  CUdeviceptr p = words(1);
  unsigned value = 1;
  std::vector<void*> params = {&p, &value};
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, launch("set_value", params, 0, 1));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, launch("set_value", params, 1, 0));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, launch("set_value", params, 1, 4096));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuLaunchKernel(function("set_value"), 1, 1, 1, 1, 1, 1,
                                                     64u << 20, nullptr, params.data(), nullptr));
  EXPECT_EQ(0u, read_word(p)) << "a refused launch ran";
}

TEST_F(LaunchTest, AThousandLaunchesKeepTheirOrder) {
  CUdeviceptr p = words(1);
  unsigned n = 1;
  CUfunction f = function("add_one");
  void* params[] = {&p, &n};
  for (int i = 0; i < 1000; ++i)
    ASSERT_OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, nullptr, params, nullptr));
  EXPECT_EQ(1000u, read_word(p));
}

TEST_F(LaunchTest, AWildStoreIsAnIllegalAddressAndSticky) {
  CUdeviceptr nowhere = 0x10;
  ASSERT_OK(launch("wild_store", {&nowhere}));
  EXPECT_CU(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
  CUdeviceptr p = 0;
  EXPECT_CU(CUDA_ERROR_ILLEGAL_ADDRESS, cuMemAlloc(&p, 16));
  EXPECT_CU(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
  cuCtxDestroy(context_);
  context_ = nullptr;
  ASSERT_OK(cuCtxCreate(&context_, nullptr, 0, device_));
  EXPECT_OK(cuMemAlloc(&p, 16)) << "a new context is not affected";
}

TEST_F(LaunchTest, ACallOfAnAddressWithoutAFunctionIsAnInvalidPcAndSticky) {
  CUdeviceptr nowhere = 0;
  ASSERT_OK(launch("call_address", {&nowhere}));
  EXPECT_CU(CUDA_ERROR_INVALID_PC, cuCtxSynchronize());
  CUdeviceptr p = 0;
  EXPECT_CU(CUDA_ERROR_INVALID_PC, cuMemAlloc(&p, 16));
  const char* text = nullptr;
  EXPECT_OK(cuGetErrorString(CUDA_ERROR_INVALID_PC, &text));
  EXPECT_STREQ("invalid program counter", text);
}

TEST_F(LaunchTest, JustBehindALargeAllocationIsAnIllegalAddress) {
  CUdeviceptr p = words(1 << 20);
  CUdeviceptr behind = p + (4u << 20);
  ASSERT_OK(launch("wild_store", {&behind}));
  EXPECT_CU(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
}

TEST_F(LaunchTest, HostFunctionsRunInStreamOrder) {
  CUstream stream = nullptr;
  ASSERT_OK(cuStreamCreate(&stream, 0));
  CUdeviceptr p = words(1);
  unsigned value = 5;
  unsigned rotations = 100000;
  std::atomic<int> ran{0};
  ASSERT_OK(launch("slow_set", {&p, &value, &rotations}, 1, 1, stream));
  const CUresult result = cuLaunchHostFunc(
      stream, [](void* data) { *static_cast<std::atomic<int>*>(data) += 1; }, &ran);
  ASSERT_OK(result);
  ASSERT_OK(cuStreamSynchronize(stream));
  EXPECT_EQ(1, ran.load());
}

}  // namespace sluice::test
