#include "common/driver_branch.h"
#include "common/gpu_uuid.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(Names, AUuidIsWrittenAsCudasToolsDo) {
  const std::array<std::uint8_t, 16> uuid = {0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef,
                                             0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0xff};
  EXPECT_EQ("GPU-01234567-89ab-cdef-0011-2233445566ff", gpu_uuid_text(uuid));
}

TEST(Names, ADriverIsCalledAfterTheCudaThatItOffers) {
  // Broken: programs that compare driver versions take ours for too old.
  EXPECT_EQ("580.00", driver_version_text(13000));
  EXPECT_EQ("520.00", driver_version_text(11080));
  EXPECT_EQ("550.00", driver_version_text(12041)) << "between two, the older";
  EXPECT_EQ("590.00", driver_version_text(99000));
  EXPECT_EQ("450.00", driver_version_text(0));
}

}  // namespace
}  // namespace sluice
