// Filling memory.
#include "tests/cuda/fixture.h"

namespace sluice::test {

class MemsetTest : public KernelTest {};

TEST_F(MemsetTest, FillsBytesShortsAndWords) {
  CUdeviceptr p = 0;
  std::vector<unsigned char> back(64);
  ASSERT_OK(cuMemAlloc(&p, 64));
  ASSERT_OK(cuMemsetD8(p, 0x11, 64));
  ASSERT_OK(cuMemsetD16(p + 8, 0x2233, 4));
  ASSERT_OK(cuMemsetD32(p + 32, 0x44556677, 2));
  ASSERT_OK(cuMemcpyDtoH(back.data(), p, 64));
  EXPECT_EQ(0x11, back[7]);
  EXPECT_EQ(0x33, back[8]);
  EXPECT_EQ(0x22, back[15]);
  EXPECT_EQ(0x11, back[16]);
  EXPECT_EQ(0x77, back[32]);
  EXPECT_EQ(0x44, back[39]);
  EXPECT_EQ(0x11, back[40]);
}

TEST_F(MemsetTest, FillsRowsAndLeavesThePitchAlone) {
  CUdeviceptr p = 0;
  std::size_t pitch = 0;
  ASSERT_OK(cuMemAllocPitch(&p, &pitch, 100, 5, 4));
  ASSERT_GE(pitch, 100u);
  std::vector<unsigned char> back(pitch * 5);
  ASSERT_OK(cuMemsetD8(p, 1, pitch * 5));
  ASSERT_OK(cuMemsetD2D8(p, pitch, 9, 100, 5));
  ASSERT_OK(cuMemcpyDtoH(back.data(), p, back.size()));
  for (std::size_t row = 0; row < 5; ++row) {
    EXPECT_EQ(9, back[row * pitch + 99]);
    if (pitch > 100) {
      EXPECT_EQ(1, back[row * pitch + 100]);
    }
  }
}

TEST_F(MemsetTest, AsynchronousFillsFollowStreamOrder) {
  CUstream stream = nullptr;
  ASSERT_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CUdeviceptr p = words(1);
  ASSERT_OK(cuCtxSynchronize());
  unsigned value = 3;
  unsigned rotations = 200000;
  ASSERT_OK(launch("slow_set", {&p, &value, &rotations}, 1, 1, stream));
  ASSERT_OK(cuMemsetD32Async(p, 99, 1, stream));
  ASSERT_OK(cuStreamSynchronize(stream));
  EXPECT_EQ(99u, read_word(p));
}

}  // namespace sluice::test
