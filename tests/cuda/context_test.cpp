// Contexts: the per-thread stack, primary contexts, and calls without one.
#include "tests/cuda/fixture.h"

#include <thread>

namespace sluice::test {

class ContextTest : public CudaTest {};

TEST_F(ContextTest, ACreatedContextIsCurrent) {
  CUcontext current = nullptr;
  ASSERT_OK(cuCtxGetCurrent(&current));
  EXPECT_EQ(context_, current);
  CUdevice device = -1;
  ASSERT_OK(cuCtxGetDevice(&device));
  EXPECT_EQ(device_, device);
}

TEST_F(ContextTest, PushAndPopFormAStackPerThread) {
  CUcontext second = nullptr;
  CUcontext popped = nullptr;
  CUcontext current = nullptr;
  ASSERT_OK(cuCtxCreate(&second, nullptr, 0, device_));
  ASSERT_OK(cuCtxPushCurrent(context_));
  ASSERT_OK(cuCtxPopCurrent(&popped));
  EXPECT_EQ(context_, popped);
  ASSERT_OK(cuCtxGetCurrent(&current));
  EXPECT_EQ(second, current);
  std::thread([&] {
    CUcontext elsewhere = context_;
    EXPECT_OK(cuCtxGetCurrent(&elsewhere));
    EXPECT_EQ(nullptr, elsewhere) << "the stack of one thread is seen by another";
    EXPECT_CU(CUDA_ERROR_INVALID_CONTEXT, cuCtxSynchronize());
    EXPECT_OK(cuCtxSetCurrent(context_));
    EXPECT_OK(cuCtxSynchronize());
  }).join();
  ASSERT_OK(cuCtxDestroy(second));
}

TEST_F(ContextTest, CallsWithoutACurrentContextAreRefused) {
  ASSERT_OK(cuCtxSetCurrent(nullptr));
  CUdeviceptr p = 0;
  CUstream stream = nullptr;
  EXPECT_CU(CUDA_ERROR_INVALID_CONTEXT, cuMemAlloc(&p, 16));
  EXPECT_CU(CUDA_ERROR_INVALID_CONTEXT, cuStreamCreate(&stream, 0));
  EXPECT_CU(CUDA_ERROR_INVALID_CONTEXT, cuCtxSynchronize());
  ASSERT_OK(cuCtxSetCurrent(context_));
  EXPECT_OK(cuMemAlloc(&p, 16));
}

TEST_F(ContextTest, ThePrimaryContextIsCountedAndShared) {
  CUcontext first = nullptr;
  CUcontext second = nullptr;
  unsigned flags = 0;
  int active = 0;
  ASSERT_OK(cuDevicePrimaryCtxRetain(&first, device_));
  ASSERT_OK(cuDevicePrimaryCtxRetain(&second, device_));
  EXPECT_EQ(first, second);
  ASSERT_OK(cuDevicePrimaryCtxGetState(device_, &flags, &active));
  EXPECT_EQ(1, active);
  EXPECT_OK(cuDevicePrimaryCtxRelease(device_));
  EXPECT_OK(cuDevicePrimaryCtxRelease(device_));
  ASSERT_OK(cuDevicePrimaryCtxGetState(device_, &flags, &active));
  EXPECT_EQ(0, active);
  EXPECT_CU(CUDA_ERROR_INVALID_CONTEXT, cuDevicePrimaryCtxRelease(device_));
}

TEST_F(ContextTest, DestroyingAContextFreesItsMemory) {
  std::size_t free_before = 0;
  std::size_t free_after = 0;
  std::size_t total = 0;
  ASSERT_OK(cuMemGetInfo(&free_before, &total));
  CUcontext other = nullptr;
  CUdeviceptr p = 0;
  ASSERT_OK(cuCtxCreate(&other, nullptr, 0, device_));
  ASSERT_OK(cuMemAlloc(&p, 32u << 20));
  ASSERT_OK(cuCtxDestroy(other));
  ASSERT_OK(cuMemGetInfo(&free_after, &total));
  EXPECT_GE(free_after + (1u << 20), free_before);
}

}  // namespace sluice::test
