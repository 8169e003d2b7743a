// If these fail, memory that a program remaps shows the wrong bytes, or what CUDA forbids passes
// here and fails on a GPU.
#include "tests/cuda/fixture.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace sluice::test {
namespace {

class VirtualMemoryTest : public KernelTest {
 protected:
  void SetUp() override {
    KernelTest::SetUp();
    properties_.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties_.location = {CU_MEM_LOCATION_TYPE_DEVICE, device_};
    access_ = {properties_.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    ASSERT_OK(
        cuMemGetAllocationGranularity(&step_, &properties_, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  }
  CUmemGenericAllocationHandle create(std::size_t bytes) {
    CUmemGenericAllocationHandle handle = 0;
    EXPECT_OK(cuMemCreate(&handle, bytes, &properties_, 0));
    return handle;
  }
  CUdeviceptr reserve(std::size_t bytes) {
    CUdeviceptr p = 0;
    EXPECT_OK(cuMemAddressReserve(&p, bytes, 0, 0, 0));
    return p;
  }
  std::size_t free_bytes() {
    std::size_t free = 0, total = 0;
    EXPECT_OK(cuMemGetInfo(&free, &total));
    return free;
  }

  CUmemAllocationProp properties_{};
  CUmemAccessDesc access_{};
  std::size_t step_ = 0;
};

TEST_F(VirtualMemoryTest, TwoMappingsOfABlockAliasForKernels) {
  const CUdeviceptr p = reserve(2 * step_);
  const auto block = create(step_);
  ASSERT_OK(cuMemMap(p, step_, 0, block, 0));
  ASSERT_OK(cuMemMap(p + step_, step_, 0, block, 0));
  ASSERT_OK(cuMemSetAccess(p, 2 * step_, &access_, 1));
  ASSERT_OK(cuMemsetD32(p, 41, 1));
  CUdeviceptr alias = p + step_;
  unsigned n = 1;
  ASSERT_OK(launch("add_one", {&alias, &n}));
  EXPECT_EQ(42u, read_word(p));
  ASSERT_OK(cuMemUnmap(p, 2 * step_));
  ASSERT_OK(cuMemRelease(block));
  ASSERT_OK(cuMemAddressFree(p, 2 * step_));
}

TEST_F(VirtualMemoryTest, WithoutSetAccessNothingCanBeTouched) {
  CUdeviceptr p = reserve(step_);
  const auto block = create(step_);
  ASSERT_OK(cuMemMap(p, step_, 0, block, 0));
  unsigned word = 0;
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH(&word, p, 4));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemsetD32(p, 1, 1));
  unsigned long long flags = 9;
  ASSERT_OK(cuMemGetAccess(&flags, &access_.location, p));
  EXPECT_EQ(0u, flags);
  ASSERT_OK(launch("wild_store", {&p}));
  EXPECT_CU(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
}

TEST_F(VirtualMemoryTest, AReadOnlyMappingRefusesWrites) {
  CUdeviceptr p = reserve(step_);
  const auto block = create(step_);
  ASSERT_OK(cuMemMap(p, step_, 0, block, 0));
  access_.flags = CU_MEM_ACCESS_FLAGS_PROT_READ;
  ASSERT_OK(cuMemSetAccess(p, step_, &access_, 1));
  EXPECT_EQ(0u, read_word(p));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemsetD32(p, 1, 1));
  ASSERT_OK(launch("wild_store", {&p}));
  EXPECT_CU(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
}

TEST_F(VirtualMemoryTest, ARemappedPlaceNeedsAccessAnew) {
  const CUdeviceptr p = reserve(step_);
  const auto a = create(step_), b = create(step_);
  ASSERT_OK(cuMemMap(p, step_, 0, a, 0));
  ASSERT_OK(cuMemSetAccess(p, step_, &access_, 1));
  EXPECT_EQ(0u, read_word(p));
  ASSERT_OK(cuMemUnmap(p, step_));
  ASSERT_OK(cuMemMap(p, step_, 0, b, 0));
  unsigned word = 0;
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH(&word, p, 4));
}

TEST_F(VirtualMemoryTest, OnlyWholeMappingsAreUnmapped) {
  const CUdeviceptr p = reserve(4 * step_);
  const auto block = create(2 * step_);
  ASSERT_OK(cuMemMap(p, 2 * step_, 0, block, 0));
  ASSERT_OK(cuMemMap(p + 2 * step_, 2 * step_, 0, block, 0));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemUnmap(p, step_));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemUnmap(p + step_, step_));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemUnmap(p, 3 * step_));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemAddressFree(p, 4 * step_)) << "still mapped";
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemSetAccess(p, step_, &access_, 1));
  EXPECT_OK(cuMemSetAccess(p, 4 * step_, &access_, 1));
  EXPECT_OK(cuMemUnmap(p, 4 * step_));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemUnmap(p, 4 * step_)) << "nothing is mapped any more";
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemAddressFree(p, 2 * step_)) << "not the size reserved";
  EXPECT_OK(cuMemAddressFree(p, 4 * step_));
}

TEST_F(VirtualMemoryTest, ABlockIsChargedUntilItsLastHandleAndMappingAreGone) {
  const std::size_t before = free_bytes();
  const CUdeviceptr p = reserve(step_);
  EXPECT_EQ(before, free_bytes()) << "addresses cost nothing";
  const auto block = create(step_);
  EXPECT_EQ(before - step_, free_bytes());
  ASSERT_OK(cuMemMap(p, step_, 0, block, 0));
  EXPECT_EQ(before - step_, free_bytes());
  ASSERT_OK(cuMemRelease(block));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemRelease(block)) << "released twice";
  EXPECT_EQ(before - step_, free_bytes()) << "still mapped";
  CUmemGenericAllocationHandle again = 0;
  ASSERT_OK(cuMemRetainAllocationHandle(&again, reinterpret_cast<void*>(p)));
  EXPECT_EQ(block, again);
  ASSERT_OK(cuMemUnmap(p, step_));
  EXPECT_EQ(before - step_, free_bytes()) << "still held";
  ASSERT_OK(cuMemRelease(again));
  EXPECT_EQ(before, free_bytes());
}

TEST_F(VirtualMemoryTest, WhatTheDeviceDoesNotHaveIsOutOfMemory) {
  std::size_t free = 0, total = 0;
  ASSERT_OK(cuMemGetInfo(&free, &total));
  CUmemGenericAllocationHandle handle = 0;
  EXPECT_CU(CUDA_ERROR_OUT_OF_MEMORY,
            cuMemCreate(&handle, (total / step_ + 1) * step_, &properties_, 0));
}

TEST_F(VirtualMemoryTest, ArgumentsAreChecked) {
  CUmemGenericAllocationHandle handle = 0;
  CUdeviceptr p = 0;
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemCreate(&handle, step_ + 4096, &properties_, 0));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemCreate(&handle, step_, &properties_, 1));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemAddressReserve(&p, step_ + 1, 0, 0, 0));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemAddressReserve(&p, step_, 3, 0, 0));
  CUmemAllocationProp elsewhere = properties_;
  elsewhere.location.id = 99;
  EXPECT_CU(CUDA_ERROR_INVALID_DEVICE, cuMemCreate(&handle, step_, &elsewhere, 0));
  handle = create(step_);
  p = reserve(2 * step_);
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemMap(p + 4096, step_, 0, handle, 0));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemMap(p, step_, step_, handle, 0));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemMap(p, 2 * step_, 0, handle, 0)) << "more than it has";
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemMap(p + 2 * step_, step_, 0, handle, 0));
  EXPECT_OK(cuMemMap(p, step_, 0, handle, 0));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemMap(p, step_, 0, handle, 0)) << "mapped already";
}

TEST_F(VirtualMemoryTest, AReservationIsAlignedAsAsked) {
  CUdeviceptr p = 0;
  const std::size_t alignment = std::size_t{64} << 20;
  ASSERT_OK(cuMemAddressReserve(&p, step_, alignment, 0, 0));
  EXPECT_EQ(0u, p % alignment);
  EXPECT_OK(cuMemAddressFree(p, step_));
}

TEST_F(VirtualMemoryTest, AnExportedBlockIsTheSameMemoryWhereItIsImported) {
  properties_.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  const auto block = create(step_);
  int fd = -1;
  ASSERT_OK(cuMemExportToShareableHandle(&fd, block, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  CUmemGenericAllocationHandle imported = 0;
  ASSERT_OK(cuMemImportFromShareableHandle(&imported, reinterpret_cast<void*>(std::intptr_t{fd}),
                                           CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
  ::close(fd);
  CUmemAllocationProp got{};
  ASSERT_OK(cuMemGetAllocationPropertiesFromHandle(&got, imported));
  EXPECT_EQ(device_, got.location.id);
  EXPECT_EQ(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, got.requestedHandleTypes);
  const CUdeviceptr p = reserve(2 * step_);
  ASSERT_OK(cuMemMap(p, step_, 0, block, 0));
  ASSERT_OK(cuMemMap(p + step_, step_, 0, imported, 0));
  ASSERT_OK(cuMemSetAccess(p, 2 * step_, &access_, 1));
  ASSERT_OK(cuMemsetD32(p, 77, 1));
  EXPECT_EQ(77u, read_word(p + step_));
}

TEST_F(VirtualMemoryTest, AForeignDescriptorIsNotImported) {
  // A file that its owner can shrink would take the process down when it is touched.
  const int fd = ::memfd_create("mine", MFD_ALLOW_SEALING);
  ASSERT_EQ(0, ::ftruncate(fd, static_cast<off_t>(step_ + 4096)));
  CUmemGenericAllocationHandle handle = 0;
  for (const int bad : {fd, -1, 9999})
    EXPECT_CU(CUDA_ERROR_INVALID_VALUE,
              cuMemImportFromShareableHandle(&handle, reinterpret_cast<void*>(std::intptr_t{bad}),
                                             CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
  ::close(fd);
  const auto secret = create(step_);
  int out = -1;
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE,
            cuMemExportToShareableHandle(&out, secret, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0))
      << "not created to be exported";
}

}  // namespace
}  // namespace sluice::test
