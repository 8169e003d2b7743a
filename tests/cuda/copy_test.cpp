// Copies between host and device, of all sizes around the limits of one record.
#include "tests/cuda/fixture.h"

#include <cstring>
#include <numeric>

namespace sluice::test {

class CopyTest : public KernelTest {
 protected:
  static std::vector<unsigned char> noise(std::size_t bytes, unsigned seed) {
    std::vector<unsigned char> data(bytes);
    unsigned x = seed * 2654435761u + 1;
    for (auto& byte : data) {
      x = x * 1664525u + 1013904223u;
      byte = static_cast<unsigned char>(x >> 24);
    }
    return data;
  }
};

TEST_F(CopyTest, EverySizeArrivesWhole) {
  const std::size_t sizes[] = {1,     2,     7,      8,      9,      63,      4096,
                               65535, 65536, 262143, 262144, 262145, 1 << 20, (3 << 20) + 17};
  for (std::size_t bytes : sizes) {
    const auto data = noise(bytes, static_cast<unsigned>(bytes));
    std::vector<unsigned char> back(bytes, 0);
    CUdeviceptr p = 0;
    ASSERT_OK(cuMemAlloc(&p, bytes));
    ASSERT_OK(cuMemcpyHtoD(p, data.data(), bytes));
    ASSERT_OK(cuMemcpyDtoH(back.data(), p, bytes));
    EXPECT_EQ(data, back) << bytes << " bytes";
    ASSERT_OK(cuMemFree(p));
  }
}

TEST_F(CopyTest, TheSourceMayBeOverwrittenAfterTheCall) {
  auto data = noise(1 << 20, 3);
  const auto original = data;
  CUdeviceptr p = 0;
  ASSERT_OK(cuMemAlloc(&p, data.size()));
  ASSERT_OK(cuMemcpyHtoD(p, data.data(), data.size()));
  std::memset(data.data(), 0xEE, data.size());
  std::vector<unsigned char> back(data.size());
  ASSERT_OK(cuMemcpyDtoH(back.data(), p, back.size()));
  EXPECT_EQ(original, back);
}

TEST_F(CopyTest, DeviceToDeviceFollowsEarlierWork) {
  const auto data = noise(300001, 9);
  CUdeviceptr a = 0;
  CUdeviceptr b = 0;
  ASSERT_OK(cuMemAlloc(&a, data.size()));
  ASSERT_OK(cuMemAlloc(&b, data.size()));
  ASSERT_OK(cuMemcpyHtoD(a, data.data(), data.size()));
  ASSERT_OK(cuMemcpyDtoD(b, a, data.size()));
  ASSERT_OK(cuMemsetD8(a, 0, data.size()));
  std::vector<unsigned char> back(data.size());
  ASSERT_OK(cuMemcpyDtoH(back.data(), b, back.size()));
  EXPECT_EQ(data, back);
}

TEST_F(CopyTest, APageableUploadIsThereForEveryLaterStreamAndContext) {
  auto data = noise(12 << 20, 21);
  std::vector<unsigned char> back(data.size());
  CUdeviceptr p = 0;
  CUstream other_stream = nullptr;
  CUcontext other = nullptr;
  ASSERT_OK(cuMemAlloc(&p, data.size()));
  ASSERT_OK(cuStreamCreate(&other_stream, CU_STREAM_NON_BLOCKING));
  ASSERT_OK(cuCtxCreate(&other, nullptr, 0, device_));
  CUstream foreign_stream = nullptr;
  ASSERT_OK(cuStreamCreate(&foreign_stream, CU_STREAM_NON_BLOCKING));
  for (unsigned round = 0; round < 4; ++round) {
    data[data.size() - 1] = static_cast<unsigned char>(round);
    ASSERT_OK(cuCtxSetCurrent(context_));
    ASSERT_OK(cuMemcpyHtoDAsync(p, data.data(), data.size(), nullptr));
    ASSERT_OK(cuMemcpyDtoHAsync(back.data(), p, back.size(), other_stream));
    EXPECT_EQ(data, back) << "in another stream";
    data[data.size() - 2] = static_cast<unsigned char>(round + 100);
    ASSERT_OK(cuMemcpyHtoDAsync(p, data.data(), data.size(), other_stream));
    ASSERT_OK(cuCtxSetCurrent(other));
    ASSERT_OK(cuMemcpyDtoHAsync(back.data(), p, back.size(), foreign_stream));
    EXPECT_EQ(data, back) << "in another context";
  }
  ASSERT_OK(cuCtxDestroy(other));
  ASSERT_OK(cuCtxSetCurrent(context_));
}

TEST_F(CopyTest, AsynchronousCopiesOfOneStreamKeepTheirOrder) {
  CUstream stream = nullptr;
  ASSERT_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  unsigned* pinned = nullptr;
  const unsigned n = 100000;
  ASSERT_OK(cuMemAllocHost(reinterpret_cast<void**>(&pinned), n * 4));
  CUdeviceptr p = words(n);
  ASSERT_OK(cuCtxSynchronize());
  std::iota(pinned, pinned + n, 0u);
  unsigned count = n;
  for (int round = 0; round < 5; ++round) {
    ASSERT_OK(cuMemcpyHtoDAsync(p, pinned, n * 4, stream));
    ASSERT_OK(launch("add_one", {&p, &count}, (n + 255) / 256, 256, stream));
    ASSERT_OK(cuMemcpyDtoHAsync(pinned, p, n * 4, stream));
  }
  ASSERT_OK(cuStreamSynchronize(stream));
  for (unsigned i = 0; i < n; i += 997) ASSERT_EQ(i + 5, pinned[i]);
  EXPECT_EQ(n - 1 + 5, pinned[n - 1]);
  ASSERT_OK(cuMemFreeHost(pinned));
}

TEST_F(CopyTest, TheKindOfCopyFollowsFromTheAddresses) {
  const auto data = noise(5000, 4);
  CUdeviceptr p = 0;
  CUdeviceptr q = 0;
  std::vector<unsigned char> back(data.size());
  ASSERT_OK(cuMemAlloc(&p, data.size()));
  ASSERT_OK(cuMemAlloc(&q, data.size()));
  ASSERT_OK(cuMemcpy(p, reinterpret_cast<CUdeviceptr>(data.data()), data.size()));
  ASSERT_OK(cuMemcpy(q, p, data.size()));
  ASSERT_OK(cuMemcpy(reinterpret_cast<CUdeviceptr>(back.data()), q, back.size()));
  EXPECT_EQ(data, back);
}

TEST_F(CopyTest, BeyondTheAllocationIsRefused) {
  CUdeviceptr p = 0;
  ASSERT_OK(cuMemAlloc(&p, 1000));
  std::vector<unsigned char> data(1 << 20);
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD(p, data.data(), data.size()));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH(data.data(), p, data.size()));
  EXPECT_OK(cuMemcpyHtoD(p, data.data(), 1000)) << "the refusals are not sticky";
}

TEST_F(CopyTest, ZeroBytesAreFine) {
  CUdeviceptr p = 0;
  char byte = 0;
  ASSERT_OK(cuMemAlloc(&p, 16));
  EXPECT_OK(cuMemcpyHtoD(p, &byte, 0));
  EXPECT_OK(cuMemcpyDtoH(&byte, p, 0));
}

}  // namespace sluice::test
