// If these fail, memory that host and kernels share is not shared, or boxes of memory land in the
// wrong place.
#include "tests/cuda/fixture.h"

#include <cstring>

namespace sluice::test {
namespace {

class HostMemoryTest : public KernelTest {};

TEST_F(HostMemoryTest, ManagedMemoryIsTheHostsAndTheDevices) {
  CUdeviceptr p = 0;
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemAllocManaged(&p, 4, 0));
  ASSERT_OK(cuMemAllocManaged(&p, 4, CU_MEM_ATTACH_GLOBAL));
  auto* host = reinterpret_cast<unsigned*>(p);
  *host = 41;
  unsigned n = 1;
  ASSERT_OK(launch("add_one", {&p, &n}));
  ASSERT_OK(cuCtxSynchronize());
  EXPECT_EQ(42u, *host);
  int is_managed = 0;
  void* address = nullptr;
  ASSERT_OK(cuPointerGetAttribute(&is_managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, p));
  EXPECT_EQ(1, is_managed);
  ASSERT_OK(cuPointerGetAttribute(&address, CU_POINTER_ATTRIBUTE_HOST_POINTER, p));
  EXPECT_EQ(host, address);
  const CUmemLocation here{CU_MEM_LOCATION_TYPE_DEVICE, device_};
  EXPECT_OK(cuMemPrefetchAsync(p, 4, here, 0, nullptr));
  EXPECT_OK(cuMemAdvise(p, 4, CU_MEM_ADVISE_SET_READ_MOSTLY, here));
  const CUdeviceptr plain = words(1);
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemPrefetchAsync(plain, 4, here, 0, nullptr));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemAdvise(p, 5, CU_MEM_ADVISE_SET_READ_MOSTLY, here));
  EXPECT_OK(cuMemFree(p));
}

TEST_F(HostMemoryTest, RegistrationsDoNotOverlapAndFlagsAreChecked) {
  alignas(64) static char memory[256];
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemHostRegister(memory, 256, 0x100));
  EXPECT_CU(CUDA_ERROR_NOT_SUPPORTED, cuMemHostRegister(memory, 256, CU_MEMHOSTREGISTER_READ_ONLY));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemHostRegister(memory, SIZE_MAX, 0));
  ASSERT_OK(cuMemHostRegister(memory + 64, 128, CU_MEMHOSTREGISTER_DEVICEMAP));
  EXPECT_CU(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, cuMemHostRegister(memory, 65, 0));
  EXPECT_CU(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, cuMemHostRegister(memory + 191, 8, 0));
  EXPECT_CU(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, cuMemHostUnregister(memory));
  ASSERT_OK(cuMemHostUnregister(memory + 64));
  void* p = nullptr;
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemHostAlloc(&p, 16, 0x100));
}

TEST_F(HostMemoryTest, ABoxIsCopiedWithItsPitchesAndHeights) {
  constexpr std::size_t kPitch = 16, kRows = 5, kSlices = 4;
  unsigned char from[kPitch * kRows * kSlices], to[kPitch * kRows * kSlices];
  for (std::size_t i = 0; i < sizeof from; ++i) from[i] = static_cast<unsigned char>(i);
  std::memset(to, 0xee, sizeof to);
  CUdeviceptr p = 0;
  ASSERT_OK(cuMemAlloc(&p, sizeof from));
  ASSERT_OK(cuMemcpyHtoD(p, from, sizeof from));
  CUDA_MEMCPY3D c{};
  c.srcMemoryType = CU_MEMORYTYPE_DEVICE, c.srcDevice = p;
  c.srcPitch = kPitch, c.srcHeight = kRows;
  c.srcXInBytes = 3, c.srcY = 1, c.srcZ = 2;
  c.dstMemoryType = CU_MEMORYTYPE_HOST, c.dstHost = to;
  c.dstPitch = kPitch, c.dstHeight = kRows;
  c.dstXInBytes = 1, c.dstZ = 1;
  c.WidthInBytes = 4, c.Height = 3, c.Depth = 2;
  ASSERT_OK(cuMemcpy3D(&c));
  for (std::size_t z = 0; z < kSlices; ++z)
    for (std::size_t y = 0; y < kRows; ++y)
      for (std::size_t x = 0; x < kPitch; ++x) {
        const bool is_inside = z >= 1 && z < 3 && y < 3 && x >= 1 && x < 5;
        const std::size_t source = ((z + 1) * kRows + y + 1) * kPitch + x + 2;
        EXPECT_EQ(is_inside ? from[source] : 0xee, to[(z * kRows + y) * kPitch + x]);
      }
  c.Depth = 3;
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemcpy3D(&c)) << "beyond the allocation";
  c.Depth = 2, c.srcPitch = 3;
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemcpy3D(&c)) << "pitch below the width";
  c.srcPitch = kPitch, c.srcMemoryType = CU_MEMORYTYPE_ARRAY;
  EXPECT_CU(CUDA_ERROR_NOT_SUPPORTED, cuMemcpy3D(&c));
}

}  // namespace
}  // namespace sluice::test
