// Row memory_pool: stream-ordered allocation.
#include "tests/cuda/fixture.h"

namespace {

using namespace sluice::test;

class MemoryPool : public KernelTest {
 protected:
  void SetUp() override {
    KernelTest::SetUp();
    if (HasFatalFailure()) return;
    int supported = 0;
    ASSERT_OK(
        cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, device_));
    if (supported == 0) GTEST_SKIP() << "the driver has no memory pools";
    ASSERT_OK(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING));
    ASSERT_OK(cuDeviceGetDefaultMemPool(&pool_, device_));
  }
  cuuint64_t figure(CUmemoryPool pool, CUmemPool_attribute attribute) {
    cuuint64_t value = ~0ull;
    EXPECT_OK(cuMemPoolGetAttribute(pool, attribute, &value));
    return value;
  }
  CUmemoryPool create_pool() {
    CUmemPoolProps properties{};
    properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device_};
    CUmemoryPool pool = nullptr;
    EXPECT_OK(cuMemPoolCreate(&pool, &properties));
    return pool;
  }

  CUstream stream_ = nullptr;
  CUmemoryPool pool_ = nullptr;
};

TEST_F(MemoryPool, MemoryIsUsableInStreamOrder) {
  CUdeviceptr p = 0;
  ASSERT_OK(cuMemAllocAsync(&p, 4096, stream_));
  ASSERT_OK(cuMemsetD32Async(p, 7, 1024, stream_));
  unsigned value = 0;
  ASSERT_OK(cuMemcpyDtoHAsync(&value, p + 4092, 4, stream_));
  ASSERT_OK(cuMemFreeAsync(p, stream_));
  ASSERT_OK(cuStreamSynchronize(stream_));
  EXPECT_EQ(value, 7u);
}

TEST_F(MemoryPool, UsedBytesFallBackWhenFreesHaveCompleted) {
  const cuuint64_t before = figure(pool_, CU_MEMPOOL_ATTR_USED_MEM_CURRENT);
  CUdeviceptr p = 0;
  ASSERT_OK(cuMemAllocAsync(&p, 1 << 20, stream_));
  EXPECT_GE(figure(pool_, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), before + (1 << 20));
  ASSERT_OK(cuMemFreeAsync(p, stream_));
  ASSERT_OK(cuStreamSynchronize(stream_));
  EXPECT_EQ(figure(pool_, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), before);
}

TEST_F(MemoryPool, AnImpossibleRequestIsOutOfMemory) {
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  ASSERT_OK(cuMemGetInfo(&free_bytes, &total_bytes));
  CUdeviceptr p = 0;
  EXPECT_CU(CUDA_ERROR_OUT_OF_MEMORY, cuMemAllocAsync(&p, total_bytes * 2, stream_));
  EXPECT_OK(cuMemAllocAsync(&p, 256, stream_));
  EXPECT_OK(cuMemFreeAsync(p, stream_));
}

TEST_F(MemoryPool, MemoryOfAPoolIsFreedByCuMemFreeToo) {
  CUdeviceptr p = 0;
  ASSERT_OK(cuMemAllocAsync(&p, 256, stream_));
  ASSERT_OK(cuStreamSynchronize(stream_));
  EXPECT_OK(cuMemFree(p));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync(p, stream_));
}

TEST_F(MemoryPool, AnOwnPoolServesWhenItIsCurrent) {
  CUmemoryPool own = create_pool();
  CUmemoryPool current = nullptr;
  ASSERT_OK(cuDeviceSetMemPool(device_, own));
  EXPECT_OK(cuDeviceGetMemPool(&current, device_));
  EXPECT_EQ(current, own);
  CUdeviceptr p = 0;
  ASSERT_OK(cuMemAllocAsync(&p, 1 << 20, stream_));
  EXPECT_GE(figure(own, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), cuuint64_t{1} << 20);
  CUmemoryPool of_pointer = nullptr;
  EXPECT_OK(cuPointerGetAttribute(&of_pointer, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, p));
  EXPECT_EQ(of_pointer, own);
  ASSERT_OK(cuMemFreeAsync(p, stream_));
  ASSERT_OK(cuStreamSynchronize(stream_));
  EXPECT_OK(cuMemPoolDestroy(own));
  EXPECT_OK(cuDeviceGetMemPool(&current, device_));
  EXPECT_EQ(current, pool_);
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemPoolDestroy(pool_));
}

TEST_F(MemoryPool, AReleaseThresholdKeepsMemoryInThePool) {
  CUmemoryPool own = create_pool();
  cuuint64_t threshold = 8 << 20;
  ASSERT_OK(cuMemPoolSetAttribute(own, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
  EXPECT_EQ(figure(own, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD), threshold);
  CUdeviceptr p = 0;
  ASSERT_OK(cuMemAllocFromPoolAsync(&p, 4 << 20, own, stream_));
  ASSERT_OK(cuMemFreeAsync(p, stream_));
  ASSERT_OK(cuStreamSynchronize(stream_));
  std::size_t free_before = 0;
  std::size_t total_bytes = 0;
  ASSERT_OK(cuMemGetInfo(&free_before, &total_bytes));
  ASSERT_OK(cuMemPoolTrimTo(own, 0));
  std::size_t free_after = 0;
  ASSERT_OK(cuMemGetInfo(&free_after, &total_bytes));
  EXPECT_GE(free_after, free_before);
  EXPECT_EQ(figure(own, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 0u);
  EXPECT_OK(cuMemPoolDestroy(own));
}

}  // namespace
