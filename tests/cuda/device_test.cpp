// Devices and their properties.
#include "tests/cuda/fixture.h"

#include <cstring>

namespace sluice::test {

class DeviceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK(cuInit(0));
    ASSERT_OK(cuDeviceGet(&device_, 0));
  }
  CUdevice device_ = 0;
};

TEST_F(DeviceTest, CountsAtLeastOneAndRefusesOrdinalsBeyond) {
  int count = 0;
  ASSERT_OK(cuDeviceGetCount(&count));
  ASSERT_GE(count, 1);
  CUdevice other = 0;
  EXPECT_CU(CUDA_ERROR_INVALID_DEVICE, cuDeviceGet(&other, count));
  EXPECT_CU(CUDA_ERROR_INVALID_DEVICE, cuDeviceGet(&other, -1));
}

TEST_F(DeviceTest, CutsTheNameToTheBuffer) {
  char whole[256] = {};
  ASSERT_OK(cuDeviceGetName(whole, sizeof whole, device_));
  ASSERT_GT(std::strlen(whole), 5u);
  char part[4] = {'x', 'x', 'x', 'x'};
  ASSERT_OK(cuDeviceGetName(part, sizeof part, device_));
  EXPECT_EQ(0, std::strncmp(whole, part, 3));
  EXPECT_EQ('\0', part[3]);
}

TEST_F(DeviceTest, ReportsUsableLimits) {
  int value = 0;
  ASSERT_OK(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, device_));
  EXPECT_GE(value, 512);
  ASSERT_OK(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, device_));
  EXPECT_EQ(32, value);
  ASSERT_OK(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device_));
  EXPECT_GE(value, 5);
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE,
            cuDeviceGetAttribute(&value, no_such<CUdevice_attribute>(100000), device_));
}

TEST_F(DeviceTest, HasATotalAUuidAndABusId) {
  std::size_t bytes = 0;
  ASSERT_OK(cuDeviceTotalMem(&bytes, device_));
  EXPECT_GT(bytes, std::size_t{1} << 20);
  CUuuid uuid{};
  ASSERT_OK(cuDeviceGetUuid(&uuid, device_));
  const CUuuid zero{};
  EXPECT_NE(0, std::memcmp(&uuid, &zero, sizeof uuid));
  char bus[20] = {};
  ASSERT_OK(cuDeviceGetPCIBusId(bus, sizeof bus, device_));
  CUdevice found = -1;
  ASSERT_OK(cuDeviceGetByPCIBusId(&found, bus));
  EXPECT_EQ(device_, found);
}

}  // namespace sluice::test
