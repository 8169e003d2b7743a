// Copies through memory shared with the worker, as the client sees them.
#include "tests/shim/fake_server.h"
#include "tests/transport/shm_pair.h"

#include <algorithm>

namespace sluice::test {
namespace {

constexpr std::size_t kSlotBytes = wire::kPayloadBytesMax;

std::byte byte_of(std::uint64_t i) {
  return static_cast<std::byte>(i * 131 + (i >> 8));
}

void give_back(FakeServer& server, const Received& record) {
  wire::staging_free push{};
  push.staging = record.as<wire::copy_h2d_staged>().staging;
  server.push(push, {}, CUDA_SUCCESS, record.header.seq);
}

/// Device memory that takes and gives staged copies.
FakeServer::Hook device(std::vector<std::byte>& memory) {
  return [&memory](FakeServer& server, const Received& record) {
    switch (static_cast<wire::Opcode>(record.header.opcode)) {
      case wire::Opcode::copy_h2d_staged: {
        const auto args = record.as<wire::copy_h2d_staged>();
        std::memcpy(memory.data() + (args.dst - FakeServer::kFirstAddress),
                    server.staging().data() + args.staging, args.bytes);
        give_back(server, record);
        return true;
      }
      case wire::Opcode::copy_d2h_staged: {
        const auto args = record.as<wire::copy_d2h_staged>();
        std::memcpy(server.staging().data() + args.staging,
                    memory.data() + (args.src - FakeServer::kFirstAddress), args.bytes);
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
  };
}

class StagedCopies : public ShimTest {};

TEST_F(StagedCopies, GoBothWaysWholeAndNotInThePipeline) {
  std::vector<std::byte> memory(20 << 20);
  start_on(make_shm_pair(), device(memory));
  const CUdeviceptr p = allocate(memory.size());
  for (const std::size_t bytes : {std::size_t{40'000}, kSlotBytes, kSlotBytes * 3 + 40'001,
                                  memory.size() / kSlotBytes * kSlotBytes}) {
    std::vector<std::byte> data(bytes);
    for (std::size_t i = 0; i < bytes; ++i) data[i] = byte_of(i + bytes);
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

TEST_F(StagedCopies, SmallOnesStayInThePipeline) {
  std::vector<std::byte> memory(4096);
  start_on(make_shm_pair(), device(memory));
  const CUdeviceptr p = allocate(4096);
  ASSERT_EQ(CUDA_SUCCESS, cuMemcpyHtoD_v2(p, memory.data(), 4096));
  ASSERT_EQ(CUDA_SUCCESS, cuCtxSynchronize());
  EXPECT_EQ(server_->count(wire::Opcode::copy_h2d), 1U);
  TearDown();
}

TEST_F(StagedCopies, MemoryThatNeverComesBackOnlySendsThemAnotherWay) {
  // Broken: copies behind a long kernel use up all staging memory, and a thread that the kernel
  // waits for hangs in its own copy.
  start_on(make_shm_pair(), [](FakeServer&, const Received& record) {
    return record.header.opcode == static_cast<std::uint16_t>(wire::Opcode::copy_h2d_staged);
  });
  const CUdeviceptr p = allocate(24 << 20);
  std::vector<std::byte> data(24 << 20);
  ASSERT_EQ(CUDA_SUCCESS, cuMemcpyHtoD_v2(p, data.data(), data.size()));
  ASSERT_EQ(CUDA_SUCCESS, cuCtxSynchronize());
  const std::size_t staged = server_->count(wire::Opcode::copy_h2d_staged);
  EXPECT_GT(staged, 0U);
  EXPECT_EQ(server_->count(wire::Opcode::copy_h2d), data.size() / kSlotBytes - staged);
}

TEST_F(StagedCopies, AFailedCopyGivesItsMemoryBackAndIsReported) {
  // Broken: after a few errors staging memory is used up for good.
  start_on(make_shm_pair(), [](FakeServer& server, const Received& record) {
    const auto opcode = static_cast<wire::Opcode>(record.header.opcode);
    if (opcode != wire::Opcode::copy_h2d_staged && opcode != wire::Opcode::copy_d2h_staged)
      return false;
    wire::failure push{};
    push.opcode = record.header.opcode;
    server.push(push, {}, CUDA_ERROR_INVALID_VALUE, record.header.seq);
    return true;
  });
  const CUdeviceptr p = allocate(1 << 20);
  std::vector<std::byte> data(kSlotBytes);
  for (int i = 0; i < 100; ++i) {
    static_cast<void>(cuMemcpyHtoD_v2(p, data.data(), data.size()));
    static_cast<void>(cuCtxSynchronize());
    EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH_v2(data.data(), p, data.size()));
  }
  EXPECT_EQ(server_->count(wire::Opcode::copy_h2d), 0U);
  EXPECT_EQ(server_->count(wire::Opcode::copy_d2h), 0U);
}

TEST_F(StagedCopies, AWorkerThatGivesBackWhatWasNotTakenEndsTheSession) {
  start_on(make_shm_pair());
  wire::staging_free push{};
  push.staging = kSlotBytes;
  server_->push(push);
  EXPECT_EQ(CUDA_ERROR_DEVICE_UNAVAILABLE, cuCtxSynchronize());
}

TEST_F(StagedCopies, HostDataBeyondItsMemoryEndsTheSession) {
  // Broken: a broken worker makes the client read what is not there.
  start_on(make_shm_pair(), [](FakeServer& server, const Received& record) {
    if (record.header.opcode != static_cast<std::uint16_t>(wire::Opcode::copy_d2h_staged))
      return false;
    const auto args = record.as<wire::copy_d2h_staged>();
    wire::host_data_staged push{};
    push.transfer = args.transfer;
    push.bytes = kSlotBytes + 1;
    push.staging = args.staging;
    server.push(push, {}, CUDA_SUCCESS, record.header.seq);
    return true;
  });
  const CUdeviceptr p = allocate(1 << 20);
  std::vector<std::byte> data(1 << 20);
  EXPECT_EQ(CUDA_ERROR_DEVICE_UNAVAILABLE, cuMemcpyDtoH_v2(data.data(), p, data.size()));
}

}  // namespace
}  // namespace sluice::test
