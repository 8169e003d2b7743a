// If these fail, an old handle crashes the process, or what one context did wrong is paid for by
// another.
#include "tests/cuda/fixture.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace sluice::test {
namespace {

class LifetimeTest : public KernelTest {};

TEST_F(LifetimeTest, HandlesOfADestroyedContextAreRefused) {
  CUcontext doomed = nullptr;
  CUstream stream = nullptr;
  CUevent event = nullptr;
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  ASSERT_OK(cuCtxCreate(&doomed, nullptr, 0, device_));
  ASSERT_OK(cuStreamCreate(&stream, 0));
  ASSERT_OK(cuEventCreate(&event, 0));
  ASSERT_OK(cuModuleLoadData(&module, kPtx));
  ASSERT_OK(cuModuleGetFunction(&function, module, "bump_counter"));
  ASSERT_OK(cuEventRecord(event, stream));
  ASSERT_OK(cuCtxDestroy(doomed));
  ASSERT_OK(cuCtxSetCurrent(context_));
  EXPECT_NE(CUDA_SUCCESS, cuStreamSynchronize(stream));
  EXPECT_NE(CUDA_SUCCESS, cuEventRecord(event, stream));
  EXPECT_NE(CUDA_SUCCESS, cuEventQuery(event));
  EXPECT_NE(CUDA_SUCCESS, cuStreamDestroy(stream));
  EXPECT_NE(CUDA_SUCCESS, cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr));
  EXPECT_NE(CUDA_SUCCESS, cuModuleUnload(module));
  EXPECT_CU(CUDA_ERROR_INVALID_CONTEXT, cuCtxSetCurrent(doomed));
}

TEST_F(LifetimeTest, ModulesOfADestroyedContextFreeNothingOfOthers) {
  // The globals of a dead module once were freed a second time, at addresses that belonged to
  // somebody else by then.
  for (int round = 0; round < 5; ++round) {
    CUcontext doomed = nullptr;
    CUmodule module = nullptr;
    ASSERT_OK(cuCtxCreate(&doomed, nullptr, 0, device_));
    ASSERT_OK(cuModuleLoadData(&module, kPtx));
    ASSERT_OK(cuCtxDestroy(doomed));
    ASSERT_OK(cuCtxSetCurrent(context_));
    std::vector<CUdeviceptr> blocks;
    for (int i = 0; i < 8; ++i) blocks.push_back(words(4, 0x1234u));
    cuModuleUnload(module);
    for (const CUdeviceptr p : blocks) EXPECT_EQ(0x1234u, read_word(p));
    for (const CUdeviceptr p : blocks) EXPECT_OK(cuMemFree(p)) << "somebody freed it";
  }
}

TEST_F(LifetimeTest, AFaultStaysInItsContextAndResetEndsIt) {
  CUcontext primary = nullptr;
  ASSERT_OK(cuDevicePrimaryCtxRetain(&primary, device_));
  ASSERT_OK(cuCtxPushCurrent(primary));
  CUmodule module = nullptr;
  CUfunction wild = nullptr;
  ASSERT_OK(cuModuleLoadData(&module, kPtx));
  ASSERT_OK(cuModuleGetFunction(&wild, module, "wild_store"));
  CUdeviceptr nowhere = 0x20;
  void* params[] = {&nowhere};
  ASSERT_OK(cuLaunchKernel(wild, 1, 1, 1, 1, 1, 1, 0, nullptr, params, nullptr));
  EXPECT_CU(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
  CUcontext popped = nullptr;
  ASSERT_OK(cuCtxPopCurrent(&popped));

  CUdeviceptr p = words(1, 5);
  EXPECT_EQ(5u, read_word(p)) << "the other context is not affected";

  ASSERT_OK(cuDevicePrimaryCtxReset(device_));
  ASSERT_OK(cuDevicePrimaryCtxRetain(&primary, device_));
  ASSERT_OK(cuCtxPushCurrent(primary));
  EXPECT_OK(cuMemAlloc(&p, 16));
  EXPECT_OK(cuCtxSynchronize());
  ASSERT_OK(cuCtxPopCurrent(&popped));
  EXPECT_OK(cuDevicePrimaryCtxRelease(device_));
}

TEST_F(LifetimeTest, ASegmentationFaultThatSomebodySendsEndsTheProcess) {
  // Once kernels have run, ours is the handler; it took the first one for a fault of its own.
  ASSERT_OK(launch("bump_counter", {}));
  ASSERT_OK(cuCtxSynchronize());
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::kill(::getpid(), SIGSEGV);
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(pid, ::waitpid(pid, &status, 0));
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  // The sanitizer had the handler before us: it reports the signal and exits.
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) != 0) << status;
#else
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV) << status;
#endif
}

TEST_F(LifetimeTest, AForkedChildIsNotInitialized) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    int count = 0;
    CUdeviceptr p = 0;
    const bool is_refused = cuInit(0) == CUDA_ERROR_NOT_INITIALIZED &&
                            cuDeviceGetCount(&count) == CUDA_ERROR_NOT_INITIALIZED &&
                            cuMemAlloc(&p, 16) == CUDA_ERROR_NOT_INITIALIZED &&
                            cuCtxSynchronize() == CUDA_ERROR_NOT_INITIALIZED;
    ::_exit(is_refused ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(pid, ::waitpid(pid, &status, 0));
  EXPECT_EQ(0, status);
  EXPECT_OK(cuCtxSynchronize()) << "the parent goes on";
}

}  // namespace
}  // namespace sluice::test
