// Copies: data arrives whole and in time, and a program cannot flood the worker.
#include "tests/shim/fake_server.h"

#include <algorithm>

namespace sluice::test {

/// Byte i of device memory as the fake worker has it.
std::byte device_byte(std::uint64_t i) {
  return static_cast<std::byte>(i * 131 + (i >> 8));
}

/// Sends what a copy_d2h asked for, in pieces of `piece` bytes.
void send_data(FakeServer& server, const Received& record, std::size_t piece) {
  const auto args = record.as<wire::copy_d2h>();
  for (std::uint64_t at = 0; at < args.bytes; at += piece) {
    std::vector<std::byte> data(std::min<std::uint64_t>(piece, args.bytes - at));
    for (std::size_t i = 0; i < data.size(); ++i)
      data[i] = device_byte(args.src - FakeServer::kFirstAddress + at + i);
    wire::host_data push{};
    push.transfer = args.transfer;
    push.offset = args.offset + at;
    push.data_bytes = data.size();
    server.push(push, data, CUDA_SUCCESS, record.header.seq);
  }
}

FakeServer::Hook device_with_pieces_of(std::size_t piece) {
  return [piece](FakeServer& server, const Received& record) {
    if (record.header.opcode != static_cast<std::uint16_t>(wire::Opcode::copy_d2h)) return false;
    send_data(server, record, piece);
    return true;
  };
}

class Copies : public ShimTest {
 protected:
  static void expect_device_bytes(const std::vector<std::byte>& got) {
    for (std::size_t i = 0; i < got.size(); ++i)
      ASSERT_EQ(device_byte(i), got[i]) << "byte " << i << " of " << got.size();
  }
};

TEST_F(Copies, ReadsOfEverySizeArriveWhole) {
  for (const std::size_t piece : {std::size_t{1000}, std::size_t{65537}, wire::kPayloadBytesMax}) {
    start(device_with_pieces_of(piece));
    const CUdeviceptr p = allocate(20 << 20);
    for (const std::size_t bytes : {1, 7, 8, 4096, 262145, (9 << 20) + 5}) {
      std::vector<std::byte> got(bytes);
      ASSERT_EQ(CUDA_SUCCESS, cuMemcpyDtoH_v2(got.data(), p, bytes));
      expect_device_bytes(got);
    }
    TearDown();
  }
}

TEST_F(Copies, WritesAreCutUpAndLoseNothing) {
  std::vector<std::byte> memory(3 << 20);
  start([&](FakeServer&, const Received& record) {
    if (record.header.opcode == static_cast<std::uint16_t>(wire::Opcode::copy_h2d)) {
      const auto args = record.as<wire::copy_h2d>();
      EXPECT_LE(args.data_bytes, wire::kPayloadBytesMax);
      std::memcpy(memory.data() + (args.dst - FakeServer::kFirstAddress),
                  record.blob<wire::copy_h2d>().data(), args.data_bytes);
    }
    return false;
  });
  const CUdeviceptr p = allocate(memory.size());
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{100}, std::size_t{40000},
                                  wire::kPayloadBytesMax + 3, memory.size()}) {
    std::vector<std::byte> data(bytes);
    for (std::size_t i = 0; i < bytes; ++i) data[i] = device_byte(i + bytes);
    const auto original = data;
    ASSERT_EQ(CUDA_SUCCESS, cuMemcpyHtoD_v2(p, data.data(), bytes));
    std::fill(data.begin(), data.end(), std::byte{0xEE});
    ASSERT_EQ(CUDA_SUCCESS, cuCtxSynchronize());
    ASSERT_TRUE(std::equal(original.begin(), original.end(), memory.begin())) << bytes;
  }
  TearDown();  // the hook uses what lives here
}

TEST_F(Copies, AnAsynchronousReadIntoPinnedMemoryIsThereBeforeItsEvent) {
  start(device_with_pieces_of(5000));
  const CUdeviceptr p = allocate(100000);
  void* pinned = nullptr;
  ASSERT_EQ(CUDA_SUCCESS, cuMemAllocHost_v2(&pinned, 100000));
  CUevent event = nullptr;
  ASSERT_EQ(CUDA_SUCCESS, cuEventCreate(&event, 0));
  for (int round = 0; round < 20; ++round) {
    std::memset(pinned, 0xFF, 100000);
    ASSERT_EQ(CUDA_SUCCESS, cuMemcpyDtoHAsync_v2(pinned, p, 100000, nullptr));
    ASSERT_EQ(CUDA_SUCCESS, cuEventRecord(event, nullptr));
    if (round % 2 == 0) {
      ASSERT_EQ(CUDA_SUCCESS, cuEventSynchronize(event));
    } else {
      CUresult result = CUDA_ERROR_NOT_READY;
      while (result == CUDA_ERROR_NOT_READY) result = cuEventQuery(event);
      ASSERT_EQ(CUDA_SUCCESS, result);
    }
    const auto* bytes = static_cast<const std::byte*>(pinned);
    for (std::size_t i = 0; i < 100000; i += 777) ASSERT_EQ(device_byte(i), bytes[i]) << i;
  }
  EXPECT_EQ(CUDA_SUCCESS, cuMemFreeHost(pinned));
}

TEST_F(Copies, AWriteCarriesWhatAPendingReadBrings) {
  // Pinned memory as a stepping stone: D2H and H2D of one stream through the same bytes.
  std::vector<std::byte> written(64);
  std::vector<Received> held;
  start([&](FakeServer& server, const Received& record) {
    const auto opcode = static_cast<wire::Opcode>(record.header.opcode);
    if (opcode == wire::Opcode::copy_d2h) {
      // The data comes only when the shim has run out of other things to do.
      std::thread([&server, record] { send_data(server, record, 64); }).detach();
      return true;
    }
    if (opcode == wire::Opcode::copy_h2d)
      std::memcpy(written.data(), record.blob<wire::copy_h2d>().data(), 64);
    return false;
  });
  const CUdeviceptr p = allocate(64);
  const CUdeviceptr q = allocate(64);
  void* pinned = nullptr;
  ASSERT_EQ(CUDA_SUCCESS, cuMemAllocHost_v2(&pinned, 64));
  ASSERT_EQ(CUDA_SUCCESS, cuMemcpyDtoHAsync_v2(pinned, p, 64, nullptr));
  ASSERT_EQ(CUDA_SUCCESS, cuMemcpyHtoDAsync_v2(q, pinned, 64, nullptr));
  ASSERT_EQ(CUDA_SUCCESS, cuCtxSynchronize());
  for (std::size_t i = 0; i < 64; ++i) ASSERT_EQ(device_byte(i), written[i]);
  TearDown();  // the hook uses what lives here
}

TEST_F(Copies, TheWindowHoldsBackAWriterUntilThereIsCredit) {
  std::atomic<std::uint64_t> uncredited{0};
  std::atomic<std::uint64_t> most{0};
  start([&](FakeServer& server, const Received& record) {
    if (record.header.opcode != static_cast<std::uint16_t>(wire::Opcode::copy_h2d)) return false;
    uncredited += record.as<wire::copy_h2d>().data_bytes;
    most = std::max(most.load(), uncredited.load());
    // Only a full window is given back: if the shim sent on without credit, `most` would exceed it.
    if (uncredited == wire::kCopyWindowBytes) {
      wire::copy_credit credit{};
      credit.h2d_bytes = uncredited.exchange(0);
      server.push(credit, {}, CUDA_SUCCESS, record.header.seq);
    }
    return true;
  });
  for (int i = 0; i < 20; ++i)
    allocate(64);  // one of them is quick: the way is short, and the window small
  const std::size_t bytes = 2 * wire::kCopyWindowBytes + 12345;
  const std::vector<std::byte> data(bytes);
  const CUdeviceptr p = allocate(bytes);
  ASSERT_EQ(CUDA_SUCCESS, cuMemcpyHtoD_v2(p, data.data(), bytes));
  ASSERT_EQ(CUDA_SUCCESS, cuCtxSynchronize());
  EXPECT_LE(most.load(), wire::kCopyWindowBytes);
  EXPECT_EQ(12345u, uncredited.load());
  TearDown();  // the hook uses what lives here
}

TEST_F(Copies, AFailedReadReturnsItsError) {
  start([](FakeServer& server, const Received& record) {
    if (record.header.opcode != static_cast<std::uint16_t>(wire::Opcode::copy_d2h)) return false;
    wire::host_data push{};
    push.transfer = record.as<wire::copy_d2h>().transfer;
    server.push(push, {}, CUDA_ERROR_INVALID_VALUE, record.header.seq);
    return true;
  });
  const CUdeviceptr p = allocate(10 << 20);
  std::vector<std::byte> got(10 << 20);
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH_v2(got.data(), p, got.size()));
  EXPECT_EQ(CUDA_SUCCESS, cuCtxSynchronize());
}

TEST_F(Copies, DataOutOfOrderOrBeyondItsTransferEndsTheSession) {
  for (const std::uint64_t offset : {std::uint64_t{8}, std::uint64_t{0}}) {
    start([offset](FakeServer& server, const Received& record) {
      if (record.header.opcode != static_cast<std::uint16_t>(wire::Opcode::copy_d2h)) return false;
      const std::vector<std::byte> data(offset == 0 ? 128 : 16);
      wire::host_data push{};
      push.transfer = record.as<wire::copy_d2h>().transfer;
      push.offset = offset;
      push.data_bytes = data.size();
      server.push(push, data, CUDA_SUCCESS, record.header.seq);
      return true;
    });
    const CUdeviceptr p = allocate(64);
    std::vector<std::byte> got(64);
    EXPECT_EQ(CUDA_ERROR_DEVICE_UNAVAILABLE, cuMemcpyDtoH_v2(got.data(), p, got.size()));
    TearDown();
  }
}

TEST_F(Copies, BeyondAnAllocationTheyAreRefusedAtTheCall) {
  start();
  const CUdeviceptr p = allocate(1000);
  std::vector<std::byte> data(2000);
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD_v2(p, data.data(), 1001));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH_v2(data.data(), p + 500, 501));
  EXPECT_EQ(CUDA_SUCCESS, cuMemcpyHtoD_v2(p, data.data(), 1000));
}

}  // namespace sluice::test
