// Device memory, pinned host memory and what can be asked about addresses.
#include "tests/cuda/fixture.h"

#include <cstring>

namespace sluice::test {

class MemoryTest : public KernelTest {};

TEST_F(MemoryTest, AllocationsAreAlignedAndApart) {
  CUdeviceptr a = 0;
  CUdeviceptr b = 0;
  ASSERT_OK(cuMemAlloc(&a, 1));
  ASSERT_OK(cuMemAlloc(&b, 1000));
  EXPECT_EQ(0u, a % 256);
  EXPECT_EQ(0u, b % 256);
  EXPECT_TRUE(a + 1 <= b || b + 1000 <= a);
  EXPECT_OK(cuMemFree(a));
  EXPECT_OK(cuMemFree(b));
}

TEST_F(MemoryTest, ZeroBytesAreRefused) {
  CUdeviceptr p = 0;
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemAlloc(&p, 0));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemAlloc(nullptr, 16));
}

TEST_F(MemoryTest, FreeOfNullIsFineAndOfAStrangerIsRefused) {
  EXPECT_OK(cuMemFree(0));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemFree(0x12345678));
  CUdeviceptr p = 0;
  ASSERT_OK(cuMemAlloc(&p, 4096));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemFree(p + 256))
      << "an address inside an allocation is not an allocation";
  EXPECT_OK(cuMemFree(p));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemFree(p)) << "freed twice";
}

TEST_F(MemoryTest, FreeMemoryGoesDownByAnAllocationAndUpByItsFree) {
  std::size_t before = 0;
  std::size_t during = 0;
  std::size_t after = 0;
  std::size_t total = 0;
  const std::size_t bytes = 24u << 20;
  CUdeviceptr p = 0;
  ASSERT_OK(cuMemGetInfo(&before, &total));
  ASSERT_LE(before, total);
  ASSERT_OK(cuMemAlloc(&p, bytes));
  ASSERT_OK(cuMemGetInfo(&during, &total));
  EXPECT_LE(during + bytes, before);
  ASSERT_OK(cuMemFree(p));
  ASSERT_OK(cuMemGetInfo(&after, &total));
  EXPECT_EQ(before, after);
}

TEST_F(MemoryTest, TooMuchIsExactlyOutOfMemoryAndHarmsNothing) {
  CUdeviceptr kept = words(1024, 0xABCD1234u);
  std::size_t free_bytes = 0;
  std::size_t total = 0;
  ASSERT_OK(cuMemGetInfo(&free_bytes, &total));
  CUdeviceptr p = 0;
  EXPECT_CU(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc(&p, total + 1));
  EXPECT_CU(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc(&p, std::size_t{1} << 60));
  EXPECT_EQ(0xABCD1234u, read_word(kept + 4 * 1023));
  EXPECT_OK(cuCtxSynchronize());
}

TEST_F(MemoryTest, AFreeDoesNotOvertakeEarlierWork) {
  // The kernel still writes when the free is issued; the next allocation must not see its stores.
  for (int round = 0; round < 10; ++round) {
    CUdeviceptr p = words(1024);
    unsigned value = 0xDEADBEEF;
    unsigned rotations = 100000;
    ASSERT_OK(launch("slow_set", {&p, &value, &rotations}));
    ASSERT_OK(cuMemFree(p));
    CUdeviceptr q = words(1024, 5);
    EXPECT_EQ(5u, read_word(q));
    ASSERT_OK(cuMemFree(q));
  }
}

TEST_F(MemoryTest, FindsTheAllocationOfAnInteriorAddress) {
  CUdeviceptr p = 0;
  CUdeviceptr base = 0;
  std::size_t size = 0;
  ASSERT_OK(cuMemAlloc(&p, 10000));
  ASSERT_OK(cuMemGetAddressRange(&base, &size, p + 5000));
  EXPECT_EQ(p, base);
  EXPECT_EQ(10000u, size);
  EXPECT_CU(CUDA_ERROR_NOT_FOUND, cuMemGetAddressRange(&base, &size, 0x1000));
}

TEST_F(MemoryTest, PointerAttributesTellDeviceFromHost) {
  CUdeviceptr p = 0;
  ASSERT_OK(cuMemAlloc(&p, 4096));
  CUmemorytype type{};
  ASSERT_OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p + 100));
  EXPECT_EQ(CU_MEMORYTYPE_DEVICE, type);
  CUcontext owner = nullptr;
  ASSERT_OK(cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, p));
  EXPECT_EQ(context_, owner);
  void* host = nullptr;
  ASSERT_OK(cuMemHostAlloc(&host, 8192, 0));
  ASSERT_OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                  reinterpret_cast<CUdeviceptr>(host)));
  EXPECT_EQ(CU_MEMORYTYPE_HOST, type);
  ASSERT_OK(cuMemFreeHost(host));
  int local = 0;
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                                            reinterpret_cast<CUdeviceptr>(&local)));
}

TEST_F(MemoryTest, PinnedMemoryIsOrdinaryMemoryToTheProgram) {
  void* host = nullptr;
  ASSERT_OK(cuMemAllocHost(&host, 100000));
  std::memset(host, 0x5A, 100000);
  CUdeviceptr p = 0;
  ASSERT_OK(cuMemAlloc(&p, 100000));
  ASSERT_OK(cuMemcpyHtoD(p, host, 100000));
  std::memset(host, 0, 100000);
  ASSERT_OK(cuMemcpyDtoH(host, p, 100000));
  EXPECT_EQ(0x5A, static_cast<unsigned char*>(host)[99999]);
  EXPECT_OK(cuMemFreeHost(host));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemFreeHost(host));
}

TEST_F(MemoryTest, HostMemoryCanBeRegisteredOnce) {
  std::vector<unsigned char> buffer(65536, 1);
  ASSERT_OK(cuMemHostRegister(buffer.data(), buffer.size(), 0));
  EXPECT_CU(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
            cuMemHostRegister(buffer.data(), buffer.size(), 0));
  EXPECT_OK(cuMemHostUnregister(buffer.data()));
  EXPECT_CU(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, cuMemHostUnregister(buffer.data()));
}

}  // namespace sluice::test
