// Copies through staging memory of two ends, as a client and its worker use it, over UCX: the
// shim's calls against a fake worker that has device memory.
#include "tests/shim/fake_server.h"
#include "transport/ucx/devices.h"
#include "ucx_pair.h"

#include <algorithm>
#include <thread>

namespace sluice::test {
namespace {

constexpr std::size_t kSlotBytes = wire::kPayloadBytesMax;

class UcxCopies : public ShimTest {
 protected:
  /// With `memory_bytes` of device memory.
  void start_with(std::size_t memory_bytes) {
    memory_.resize(memory_bytes);
    start_on(make_ucx_pair(transport::ucx::has_active_device() ? "ucx_rc" : "ucx_tcp"),
             [this](FakeServer& server, const Received& record) { return copy(server, record); });
  }
  bool copy(FakeServer& server, const Received& record) {
    switch (static_cast<wire::Opcode>(record.header.opcode)) {
      case wire::Opcode::copy_h2d_staged: {
        const auto args = record.as<wire::copy_h2d_staged>();
        std::memcpy(memory_.data() + (args.dst - FakeServer::kFirstAddress),
                    server.staging().data() + args.staging, args.bytes);
        wire::staging_free push{};
        push.staging = args.staging;
        server.push(push, {}, CUDA_SUCCESS, record.header.seq);
        return true;
      }
      case wire::Opcode::copy_d2h_staged: {
        const auto args = record.as<wire::copy_d2h_staged>();
        std::memcpy(server.staging().data() + args.staging,
                    memory_.data() + (args.src - FakeServer::kFirstAddress), args.bytes);
        wire::host_data_staged push{};
        push.transfer = args.transfer;
        push.offset = args.offset;
        push.bytes = args.bytes;
        push.staging = args.staging;
        server.push(push, {}, CUDA_SUCCESS, record.header.seq);
        return true;
      }
      default:
        return false;
    }
  }
  static std::vector<std::byte> noise(std::size_t bytes, std::size_t seed) {
    std::vector<std::byte> data(bytes);
    for (std::size_t i = 0; i < bytes; ++i)
      data[i] = static_cast<std::byte>((i + seed) * 131 + (i >> 8));
    return data;
  }

  std::vector<std::byte> memory_;
};

TEST_F(UcxCopies, GoBothWaysWholeAndNotInThePipeline) {
  // More than there is staging memory, and odd ends that are worth a slot.
  start_with(20 << 20);
  const CUdeviceptr p = allocate(memory_.size());
  for (const std::size_t bytes : {std::size_t{70'000}, kSlotBytes, kSlotBytes * 3 + 70'001,
                                  memory_.size() / kSlotBytes * kSlotBytes}) {
    auto data = noise(bytes, bytes);
    const auto original = data;
    ASSERT_EQ(CUDA_SUCCESS, cuMemcpyHtoD_v2(p, data.data(), bytes));
    std::fill(data.begin(), data.end(), std::byte{0});
    ASSERT_EQ(CUDA_SUCCESS, cuMemcpyDtoH_v2(data.data(), p, bytes));
    ASSERT_TRUE(original == data) << bytes;
  }
  EXPECT_EQ(server_->count(wire::Opcode::copy_h2d), 0U);
  EXPECT_EQ(server_->count(wire::Opcode::copy_d2h), 0U);
  TearDown();  // the hook uses what lives here
}

TEST_F(UcxCopies, ShortOnesStayInThePipeline) {
  // Broken: each of them waits a round trip for its few bytes.
  start_with(1 << 20);
  const CUdeviceptr p = allocate(memory_.size());
  const auto data = noise(32 * 1024, 1);
  ASSERT_EQ(CUDA_SUCCESS, cuMemcpyHtoD_v2(p, data.data(), data.size()));
  ASSERT_EQ(CUDA_SUCCESS, cuCtxSynchronize());
  EXPECT_EQ(server_->count(wire::Opcode::copy_h2d), 1U);
  EXPECT_EQ(server_->count(wire::Opcode::copy_h2d_staged), 0U);
  TearDown();
}

TEST_F(UcxCopies, ThreadsCopyBesideEachOther) {
  // Broken: threads that upload and download at once hang, or mix their bytes up.
  constexpr std::size_t kThreads = 3, kBytes = 3 * kSlotBytes + 99'999;
  start_with(kThreads * 4096 * 1024);
  std::vector<CUdeviceptr> at;
  for (std::size_t i = 0; i < kThreads; ++i) at.push_back(allocate(4096 * 1024));
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < kThreads; ++i)
    threads.emplace_back([&, i] {
      cuCtxSetCurrent(context_);
      for (std::size_t round = 0; round < 5; ++round) {
        const auto data = noise(kBytes, i * 1000 + round);
        std::vector<std::byte> back(kBytes);
        if (cuMemcpyHtoD_v2(at[i], data.data(), kBytes) != CUDA_SUCCESS ||
            cuMemcpyDtoH_v2(back.data(), at[i], kBytes) != CUDA_SUCCESS || back != data)
          ++wrong;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  TearDown();
}

TEST_F(UcxCopies, HostDataIsThereBeforeTheNewsThatImpliesIt) {
  // Broken: cuStreamSynchronize returns, and the program reads what was in its memory before.
  start_with(8 * kSlotBytes);
  const CUdeviceptr p = allocate(memory_.size());
  const auto expected = noise(memory_.size(), 5);
  std::copy(expected.begin(), expected.end(), memory_.begin());
  void* pinned = nullptr;
  ASSERT_EQ(CUDA_SUCCESS, cuMemHostAlloc(&pinned, memory_.size(), 0));
  CUstream stream = nullptr;
  ASSERT_EQ(CUDA_SUCCESS, cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  for (int round = 0; round < 10; ++round) {
    std::memset(pinned, 0, memory_.size());
    ASSERT_EQ(CUDA_SUCCESS, cuMemcpyDtoHAsync_v2(pinned, p, memory_.size(), stream));
    ASSERT_EQ(CUDA_SUCCESS, cuStreamSynchronize(stream));
    ASSERT_EQ(0, std::memcmp(pinned, expected.data(), expected.size())) << round;
  }
  EXPECT_EQ(server_->count(wire::Opcode::copy_d2h), 0U);
  TearDown();
}

TEST_F(UcxCopies, AWorkerThatDiesEndsThem) {
  // Broken: the program hangs in a copy.
  if (!transport::ucx::has_active_device())
    GTEST_SKIP() << "UCX's software for put ends the process (ucs_fatal) whose peer is gone";
  start_with(4 << 20);
  const CUdeviceptr p = allocate(memory_.size());
  std::vector<std::byte> data(memory_.size());
  ASSERT_EQ(CUDA_SUCCESS, cuMemcpyHtoD_v2(p, data.data(), data.size()));
  server_->die();
  CUresult result = CUDA_SUCCESS;
  while (result == CUDA_SUCCESS) result = cuMemcpyHtoD_v2(p, data.data(), data.size());
  EXPECT_EQ(result, CUDA_ERROR_DEVICE_UNAVAILABLE);
  EXPECT_EQ(cuMemcpyDtoH_v2(data.data(), p, data.size()), CUDA_ERROR_DEVICE_UNAVAILABLE);
  TearDown();
}

}  // namespace
}  // namespace sluice::test
