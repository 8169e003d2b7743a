// CUDA_VISIBLE_DEVICES: a program must get exactly the devices that its user chose.
#include "shim/devices.h"

#include <gtest/gtest.h>

namespace sluice::shim {
namespace {

std::vector<wire::DeviceRecord> three_devices() {
  std::vector<wire::DeviceRecord> devices(3);
  devices[0].uuid = {0x11, 0x22, 0x33, 0x44, 0x55};
  devices[1].uuid = {0x11, 0x22, 0x33, 0x45};
  devices[2].uuid = {0xAB, 0xCD};
  return devices;
}

using List = std::vector<std::uint32_t>;

TEST(VisibleDevices, WithoutAListAllAreVisible) {
  EXPECT_EQ((List{0, 1, 2}), visible_devices({}, three_devices()));
}

TEST(VisibleDevices, TheListOrdersAndEndsAtItsFirstInvalidEntry) {
  const auto devices = three_devices();
  EXPECT_EQ((List{2, 0}), visible_devices("2,0", devices));
  EXPECT_EQ((List{1}), visible_devices(" 1 ", devices));
  EXPECT_EQ((List{0}), visible_devices("0,-1,1", devices));
  EXPECT_EQ((List{0}), visible_devices("0,999", devices));
  EXPECT_EQ((List{0}), visible_devices("0,0,1", devices));
  EXPECT_EQ((List{0}), visible_devices("0,,1", devices));
  EXPECT_EQ(List{}, visible_devices("", devices));
  EXPECT_EQ(List{}, visible_devices("-1,0", devices));
  EXPECT_EQ(List{}, visible_devices("1x", devices));
  EXPECT_EQ(List{}, visible_devices("99999999999999999999", devices));
}

TEST(VisibleDevices, NamesMayBeAbbreviatedWhileUnique) {
  const auto devices = three_devices();
  EXPECT_EQ((List{2}), visible_devices("GPU-abcd0000-0000-0000-0000-000000000000", devices));
  EXPECT_EQ((List{2, 1}), visible_devices("GPU-AB,GPU-11223345", devices));
  EXPECT_EQ(List{}, visible_devices("GPU-112233", devices)) << "two devices begin so";
  EXPECT_EQ(List{}, visible_devices("GPU-", devices));
  EXPECT_EQ(List{}, visible_devices("GPU-ffffffff", devices));
}

TEST(Devices, AnswersOnlyAttributesThatTheDriverAnswered) {
  auto devices = three_devices();
  devices[1].attributes = {{CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
                           {CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, 1},
                           {-5, 1},
                           {1 << 30, 1}};
  const Devices visible(devices, "1");
  ASSERT_EQ(1, visible.count());
  EXPECT_EQ(1u, visible.ordinal(0));
  EXPECT_EQ(32, visible.attribute(0, CU_DEVICE_ATTRIBUTE_WARP_SIZE));
  EXPECT_FALSE(visible.attribute(0, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK));
  EXPECT_EQ(0, visible.attribute(0, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS))
      << "its memory is kept alike at launches and waits only";
}

}  // namespace
}  // namespace sluice::shim
