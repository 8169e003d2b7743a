// Row virtual_memory: reservations, physical memory, mappings.
#include "tests/cuda/fixture.h"

namespace {

using namespace sluice::test;

class VirtualMemory : public KernelTest {
 protected:
  void SetUp() override {
    KernelTest::SetUp();
    if (HasFatalFailure()) return;
    int supported = 0;
    ASSERT_OK(cuDeviceGetAttribute(
        &supported, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, device_));
    if (supported == 0) GTEST_SKIP() << "the driver has no virtual memory management";
    properties_.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties_.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device_};
    ASSERT_OK(
        cuMemGetAllocationGranularity(&unit_, &properties_, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    access_.location = properties_.location;
    access_.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  }
  CUmemGenericAllocationHandle create() {
    CUmemGenericAllocationHandle handle = 0;
    EXPECT_OK(cuMemCreate(&handle, unit_, &properties_, 0));
    return handle;
  }
  std::size_t free_bytes() {
    std::size_t left = 0;
    std::size_t total = 0;
    EXPECT_OK(cuMemGetInfo(&left, &total));
    return left;
  }

  CUmemAllocationProp properties_{};
  CUmemAccessDesc access_{};
  std::size_t unit_ = 0;
};

TEST_F(VirtualMemory, TwoMappingsShowTheSameMemory) {
  CUdeviceptr at = 0;
  ASSERT_OK(cuMemAddressReserve(&at, 2 * unit_, 0, 0, 0));
  CUmemGenericAllocationHandle handle = create();
  ASSERT_OK(cuMemMap(at, unit_, 0, handle, 0));
  ASSERT_OK(cuMemMap(at + unit_, unit_, 0, handle, 0));
  ASSERT_OK(cuMemSetAccess(at, 2 * unit_, &access_, 1));
  ASSERT_OK(cuMemsetD32(at, 5, 4));
  unsigned n = 4;
  ASSERT_OK(launch("add_one", {&at, &n}, 1, 4));
  EXPECT_EQ(read_word(at + unit_ + 12), 6u);
  ASSERT_OK(cuMemRelease(handle));
  EXPECT_EQ(read_word(at), 6u) << "a released handle lives while it is mapped";
  EXPECT_OK(cuMemUnmap(at, 2 * unit_));
  EXPECT_OK(cuMemAddressFree(at, 2 * unit_));
}

TEST_F(VirtualMemory, ACopyMayCrossTheBorderOfMappings) {
  CUdeviceptr at = 0;
  ASSERT_OK(cuMemAddressReserve(&at, 2 * unit_, 0, 0, 0));
  CUmemGenericAllocationHandle first = create();
  CUmemGenericAllocationHandle second = create();
  ASSERT_OK(cuMemMap(at, unit_, 0, first, 0));
  ASSERT_OK(cuMemMap(at + unit_, unit_, 0, second, 0));
  ASSERT_OK(cuMemSetAccess(at, 2 * unit_, &access_, 1));
  std::vector<unsigned> words(unit_ / 4, 3);
  ASSERT_OK(cuMemcpyHtoD(at + unit_ / 2, words.data(), unit_));
  std::vector<unsigned> got(unit_ / 4);
  ASSERT_OK(cuMemcpyDtoH(got.data(), at + unit_ / 2, unit_));
  EXPECT_EQ(got, words);
  EXPECT_OK(cuMemUnmap(at, 2 * unit_));
  EXPECT_OK(cuMemRelease(first));
  EXPECT_OK(cuMemRelease(second));
  EXPECT_OK(cuMemAddressFree(at, 2 * unit_));
}

TEST_F(VirtualMemory, PhysicalMemoryIsGivenBackWhenNobodyHasIt) {
  const std::size_t before = free_bytes();
  CUdeviceptr at = 0;
  ASSERT_OK(cuMemAddressReserve(&at, unit_, 0, 0, 0));
  EXPECT_EQ(free_bytes(), before) << "a reservation takes no memory";
  CUmemGenericAllocationHandle handle = create();
  EXPECT_EQ(free_bytes(), before - unit_);
  ASSERT_OK(cuMemMap(at, unit_, 0, handle, 0));
  ASSERT_OK(cuMemRelease(handle));
  EXPECT_EQ(free_bytes(), before - unit_) << "mapped";
  ASSERT_OK(cuMemUnmap(at, unit_));
  EXPECT_EQ(free_bytes(), before);
  EXPECT_OK(cuMemAddressFree(at, unit_));
}

TEST_F(VirtualMemory, AHandleCanBeRetainedByAddress) {
  CUdeviceptr at = 0;
  ASSERT_OK(cuMemAddressReserve(&at, unit_, 0, 0, 0));
  CUmemGenericAllocationHandle handle = create();
  ASSERT_OK(cuMemMap(at, unit_, 0, handle, 0));
  CUmemGenericAllocationHandle again = 0;
  EXPECT_OK(cuMemRetainAllocationHandle(&again, reinterpret_cast<void*>(at + 1)));
  CUmemAllocationProp properties{};
  EXPECT_OK(cuMemGetAllocationPropertiesFromHandle(&properties, again));
  EXPECT_EQ(properties.location.id, device_);
  EXPECT_OK(cuMemRelease(again));
  EXPECT_OK(cuMemUnmap(at, unit_));
  EXPECT_OK(cuMemRelease(handle));
  EXPECT_OK(cuMemAddressFree(at, unit_));
}

TEST_F(VirtualMemory, SizesAreMultiplesOfTheGranularity) {
  CUmemGenericAllocationHandle handle = 0;
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemCreate(&handle, unit_ + 1, &properties_, 0));
}

}  // namespace
