// Row managed: memory that the program and its kernels use in place, managed or pinned.
#include "tests/cuda/fixture.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace {

using namespace sluice::test;

class Managed : public KernelTest {
 protected:
  void SetUp() override {
    KernelTest::SetUp();
    if (HasFatalFailure()) return;
    ASSERT_OK(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING));
  }
  unsigned* pinned(std::size_t count, unsigned flags = 0) {
    void* p = nullptr;
    EXPECT_OK(cuMemHostAlloc(&p, count * 4, flags));
    std::memset(p, 0, count * 4);
    return static_cast<unsigned*>(p);
  }
  void add_one(CUdeviceptr p, unsigned n, CUstream stream = nullptr) {
    ASSERT_OK(launch("add_one", {&p, &n}, (n + 127) / 128, 128, stream));
  }

  CUstream stream_ = nullptr;
};

TEST_F(Managed, AKernelWorksOnPinnedMemoryInPlace) {
  constexpr unsigned kWords = 100'000;
  unsigned* p = pinned(kWords, CU_MEMHOSTALLOC_DEVICEMAP);
  CUdeviceptr device = 0;
  ASSERT_OK(cuMemHostGetDevicePointer(&device, p, 0));
  for (unsigned i = 0; i < kWords; ++i) p[i] = i;
  add_one(device, kWords);
  add_one(device, kWords);
  ASSERT_OK(cuCtxSynchronize());
  for (unsigned i = 0; i < kWords; ++i) ASSERT_EQ(p[i], i + 2);
  EXPECT_OK(cuMemFreeHost(p));
}

TEST_F(Managed, APinnedPointerMayBePassedAsItIs) {
  unsigned* p = pinned(4);
  for (unsigned round = 1; round < 4; ++round) {
    p[3] = round * 10;
    add_one(reinterpret_cast<CUdeviceptr>(p), 4, stream_);
    ASSERT_OK(cuStreamSynchronize(stream_));
    EXPECT_EQ(p[3], round * 10 + 1);
  }
  EXPECT_OK(cuMemFreeHost(p));
}

TEST_F(Managed, NeitherSideOverwritesTheOthersWords) {
  unsigned* p = pinned(2);
  add_one(reinterpret_cast<CUdeviceptr>(p), 1);
  p[1] = 9;  // while the kernel may be running
  ASSERT_OK(cuCtxSynchronize());
  EXPECT_EQ(p[0], 1u);
  EXPECT_EQ(p[1], 9u);
  add_one(reinterpret_cast<CUdeviceptr>(p), 2);
  ASSERT_OK(cuCtxSynchronize());
  EXPECT_EQ(p[0], 2u);
  EXPECT_EQ(p[1], 10u);
  EXPECT_OK(cuMemFreeHost(p));
}

TEST_F(Managed, AnEventTellsWhatAKernelWrote) {
  unsigned* p = pinned(1);
  CUevent event = nullptr;
  ASSERT_OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  add_one(reinterpret_cast<CUdeviceptr>(p), 1, stream_);
  ASSERT_OK(cuEventRecord(event, stream_));
  ASSERT_OK(cuEventSynchronize(event));
  EXPECT_EQ(*p, 1u);
  EXPECT_OK(cuMemFreeHost(p));
}

TEST_F(Managed, ACopyTakesWhatAKernelLeft) {
  unsigned* p = pinned(1);
  const CUdeviceptr target = words(1);
  ASSERT_OK(cuStreamSynchronize(nullptr));
  add_one(reinterpret_cast<CUdeviceptr>(p), 1, stream_);
  ASSERT_OK(cuMemcpyHtoDAsync(target, p, 4, stream_));
  ASSERT_OK(cuStreamSynchronize(stream_));
  EXPECT_EQ(read_word(target), 1u);
  // And the other way round: what a copy brings, the next kernel finds.
  ASSERT_OK(cuMemcpyDtoHAsync(p, target, 4, stream_));
  add_one(reinterpret_cast<CUdeviceptr>(p), 1, stream_);
  ASSERT_OK(cuStreamSynchronize(stream_));
  EXPECT_EQ(*p, 2u);
  EXPECT_OK(cuMemFreeHost(p));
}

TEST_F(Managed, RegisteredMemoryHasADevicePointer) {
  alignas(4096) static unsigned memory[2048];
  std::fill(std::begin(memory), std::end(memory), 5u);
  ASSERT_OK(cuMemHostRegister(memory, sizeof memory, CU_MEMHOSTREGISTER_DEVICEMAP));
  CUdeviceptr device = 0;
  ASSERT_OK(cuMemHostGetDevicePointer(&device, memory + 3, 0));
  add_one(device, 2);
  ASSERT_OK(cuCtxSynchronize());
  EXPECT_EQ(memory[2], 5u);
  EXPECT_EQ(memory[3], 6u);
  EXPECT_EQ(memory[4], 6u);
  EXPECT_EQ(memory[5], 5u);
  EXPECT_OK(cuMemHostUnregister(memory));
}

TEST_F(Managed, AHostFunctionFeedsTheNextKernel) {
  unsigned* p = pinned(1);
  add_one(reinterpret_cast<CUdeviceptr>(p), 1, stream_);
  ASSERT_OK(cuLaunchHostFunc(
      stream_,
      [](void* data) {
        auto* word = static_cast<unsigned*>(data);
        *word = *word * 100;
      },
      p));
  add_one(reinterpret_cast<CUdeviceptr>(p), 1, stream_);
  ASSERT_OK(cuStreamSynchronize(stream_));
  EXPECT_EQ(*p, 101u);
  EXPECT_OK(cuMemFreeHost(p));
}

TEST_F(Managed, ManagedMemoryHasOneAddress) {
  int supported = 0;
  ASSERT_OK(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, device_));
  if (supported == 0) GTEST_SKIP() << "the driver has no managed memory";
  CUdeviceptr p = 0;
  ASSERT_OK(cuMemAllocManaged(&p, 4096, CU_MEM_ATTACH_GLOBAL));
  auto* host = reinterpret_cast<unsigned*>(p);
  host[7] = 41;
  add_one(p, 8);
  ASSERT_OK(cuCtxSynchronize());
  EXPECT_EQ(host[7], 42u);
  unsigned is_managed = 0;
  EXPECT_OK(cuPointerGetAttribute(&is_managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, p + 8));
  EXPECT_EQ(is_managed, 1u);
  ASSERT_OK(cuMemsetD32(p, 3, 8));
  ASSERT_OK(cuCtxSynchronize());
  EXPECT_EQ(host[7], 3u);
  const unsigned value = 17;
  ASSERT_OK(cuMemcpy(p, reinterpret_cast<CUdeviceptr>(&value), 4));
  ASSERT_OK(cuCtxSynchronize());  // a copy from pageable memory may return before it has arrived
  EXPECT_EQ(host[0], 17u);
  EXPECT_OK(cuMemFree(p));
}

}  // namespace
