// If these fail, stream-ordered memory is handed out while it is still in use, or never comes back.
#include "tests/cuda/fixture.h"

#include <future>

namespace sluice::test {
namespace {

using namespace std::chrono_literals;

class MemoryPoolTest : public KernelTest {
 protected:
  void SetUp() override {
    KernelTest::SetUp();
    CUmemPoolProps properties{};
    properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, device_};
    ASSERT_OK(cuMemPoolCreate(&pool_, &properties));
    a_ = stream(), b_ = stream();
    ASSERT_OK(cuMemGetInfo(&free_bytes_, &total_bytes_));
  }
  void TearDown() override {
    if (!is_open_) gate_.set_value();
    cuCtxSynchronize();
    cuMemPoolDestroy(pool_);
    KernelTest::TearDown();
  }
  CUstream stream() {
    CUstream s = nullptr;
    EXPECT_OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    return s;
  }
  /// Gives up after a while: a failing test must end.
  void block(CUstream s) {
    ASSERT_OK(cuLaunchHostFunc(
        s, [](void* gate) { static_cast<std::future<void>*>(gate)->wait_for(20s); }, &opened_));
  }
  void open() {
    is_open_ = true;
    gate_.set_value();
  }
  CUdeviceptr allocate(std::size_t bytes, CUstream s) {
    CUdeviceptr p = 0;
    EXPECT_OK(cuMemAllocFromPoolAsync(&p, bytes, pool_, s));
    return p;
  }
  std::uint64_t figure(CUmemPool_attribute attribute) {
    cuuint64_t value = 0;
    EXPECT_OK(cuMemPoolGetAttribute(pool_, attribute, &value));
    return value;
  }

  CUmemoryPool pool_ = nullptr;
  CUstream a_ = nullptr, b_ = nullptr;
  std::size_t free_bytes_ = 0, total_bytes_ = 0;
  std::promise<void> gate_;
  std::future<void> opened_ = gate_.get_future();
  bool is_open_ = false;
};

TEST_F(MemoryPoolTest, AStreamUsesWhatItFreedAtOnce) {
  const std::size_t most = free_bytes_ / 10 * 6;
  block(a_);
  const CUdeviceptr first = allocate(most, a_);
  ASSERT_OK(cuMemFreeAsync(first, a_));
  const CUdeviceptr second = allocate(most, a_);
  EXPECT_EQ(first, second) << "there is no room for two, and nothing has run yet";
  ASSERT_OK(cuMemFreeAsync(second, a_));
}

TEST_F(MemoryPoolTest, InNeedAStreamWaitsForAnothersFree) {
  const std::size_t most = free_bytes_ / 10 * 6;
  CUdeviceptr first = allocate(most, a_);
  block(a_);
  ASSERT_OK(cuMemFreeAsync(first, a_));
  const CUdeviceptr second = allocate(most, b_);
  EXPECT_EQ(first, second);
  EXPECT_CU(CUDA_ERROR_NOT_READY, cuStreamQuery(b_)) << "it does not wait";
  open();
  ASSERT_OK(cuMemFreeAsync(second, b_));
  ASSERT_OK(cuStreamSynchronize(b_));
}

TEST_F(MemoryPoolTest, WithoutInternalDependenciesItIsOutOfMemory) {
  int no = 0;
  ASSERT_OK(cuMemPoolSetAttribute(pool_, CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, &no));
  const std::size_t most = free_bytes_ / 10 * 6;
  const CUdeviceptr first = allocate(most, a_);
  block(a_);
  ASSERT_OK(cuMemFreeAsync(first, a_));
  CUdeviceptr second = 0;
  EXPECT_CU(CUDA_ERROR_OUT_OF_MEMORY, cuMemAllocFromPoolAsync(&second, most, pool_, b_));
  open();
  ASSERT_OK(cuStreamSynchronize(a_));
  EXPECT_OK(cuMemAllocFromPoolAsync(&second, most, pool_, b_)) << "the refusal is not sticky";
  ASSERT_OK(cuMemFreeAsync(second, b_));
}

TEST_F(MemoryPoolTest, ASynchronisationGivesBackWhatIsAboveTheThreshold) {
  std::size_t now = 0;
  const auto use_and_sync = [&] {
    ASSERT_OK(cuMemFreeAsync(allocate(64 << 20, a_), a_));
    ASSERT_OK(cuStreamSynchronize(a_));
    ASSERT_OK(cuMemGetInfo(&now, &total_bytes_));
  };
  use_and_sync();
  EXPECT_EQ(free_bytes_, now);
  EXPECT_EQ(0u, figure(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT));
  cuuint64_t all = UINT64_MAX;
  ASSERT_OK(cuMemPoolSetAttribute(pool_, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all));
  use_and_sync();
  EXPECT_EQ(free_bytes_ - (64 << 20), now) << "kept";
  EXPECT_EQ(std::uint64_t{64} << 20, figure(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT));
  EXPECT_EQ(0u, figure(CU_MEMPOOL_ATTR_USED_MEM_CURRENT));
  ASSERT_OK(cuMemPoolTrimTo(pool_, 0));
  ASSERT_OK(cuMemGetInfo(&now, &total_bytes_));
  EXPECT_EQ(free_bytes_, now);
}

TEST_F(MemoryPoolTest, HighWatermarksStayUntilTheyAreReset) {
  const CUdeviceptr p = allocate(1 << 20, a_), q = allocate(1 << 20, a_);
  ASSERT_OK(cuMemFreeAsync(p, a_));
  ASSERT_OK(cuMemFreeAsync(q, a_));
  ASSERT_OK(cuStreamSynchronize(a_));
  EXPECT_EQ(2u << 20, figure(CU_MEMPOOL_ATTR_USED_MEM_HIGH));
  EXPECT_EQ(2u << 20, figure(CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH));
  cuuint64_t value = 5;
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE,
            cuMemPoolSetAttribute(pool_, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &value));
  value = 0;
  ASSERT_OK(cuMemPoolSetAttribute(pool_, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &value));
  EXPECT_EQ(0u, figure(CU_MEMPOOL_ATTR_USED_MEM_HIGH));
  EXPECT_EQ(2u << 20, figure(CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH));
}

TEST_F(MemoryPoolTest, MemoryIsFreedOnceAndByAnyOfTheFrees) {
  const CUdeviceptr p = allocate(100, a_);
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync(p + 4, a_));
  ASSERT_OK(cuMemFreeAsync(p, a_));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync(p, a_));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemFree(p));
  const CUdeviceptr q = allocate(100, b_);
  ASSERT_OK(cuStreamSynchronize(b_));
  EXPECT_OK(cuMemFree(q));
  CUdeviceptr plain = 0;
  ASSERT_OK(cuMemAlloc(&plain, 4 << 20));
  ASSERT_OK(cuMemFreeAsync(plain, a_));
  ASSERT_OK(cuStreamSynchronize(a_));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemFree(plain)) << "freed in stream order";
}

TEST_F(MemoryPoolTest, ADestroyedPoolsMemoryLivesUntilItIsFreed) {
  CUdeviceptr p = allocate(4 << 20, a_);
  ASSERT_OK(cuMemPoolDestroy(pool_));
  CUdeviceptr q = 0;
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemAllocFromPoolAsync(&q, 16, pool_, a_));
  ASSERT_OK(cuMemsetD32Async(p, 3, 1, a_));
  ASSERT_OK(cuStreamSynchronize(a_));
  EXPECT_EQ(3u, read_word(p));
  ASSERT_OK(cuMemFreeAsync(p, a_));
  ASSERT_OK(cuStreamSynchronize(a_));
  std::size_t now = 0;
  ASSERT_OK(cuMemGetInfo(&now, &total_bytes_));
  EXPECT_EQ(free_bytes_, now);
}

TEST_F(MemoryPoolTest, TheDevicesPoolIsTheOneThatWasSet) {
  CUmemoryPool preset = nullptr, now = nullptr;
  ASSERT_OK(cuDeviceGetDefaultMemPool(&preset, device_));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemPoolDestroy(preset));
  ASSERT_OK(cuDeviceSetMemPool(device_, pool_));
  ASSERT_OK(cuDeviceGetMemPool(&now, device_));
  EXPECT_EQ(pool_, now);
  CUdeviceptr p = 0;
  ASSERT_OK(cuMemAllocAsync(&p, 1 << 20, a_));
  EXPECT_EQ(1u << 20, figure(CU_MEMPOOL_ATTR_USED_MEM_CURRENT));
  ASSERT_OK(cuMemFreeAsync(p, a_));
  ASSERT_OK(cuMemPoolDestroy(pool_));
  ASSERT_OK(cuDeviceGetMemPool(&now, device_));
  EXPECT_EQ(preset, now) << "the default again";
}

TEST_F(MemoryPoolTest, APoolTakesNoMoreThanItsMaximum) {
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, device_};
  properties.maxSize = 8 << 20;
  CUmemoryPool small = nullptr;
  ASSERT_OK(cuMemPoolCreate(&small, &properties));
  CUdeviceptr p = 0, q = 0;
  ASSERT_OK(cuMemAllocFromPoolAsync(&p, 6 << 20, small, a_));
  EXPECT_CU(CUDA_ERROR_OUT_OF_MEMORY, cuMemAllocFromPoolAsync(&q, 6 << 20, small, a_));
  EXPECT_OK(cuMemFreeAsync(p, a_));
  EXPECT_OK(cuMemPoolDestroy(small));
}

}  // namespace
}  // namespace sluice::test
