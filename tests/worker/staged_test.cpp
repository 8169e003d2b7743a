// Copies through memory that the client shares: without a copy of ours where the driver allows it,
// and never beyond that memory.
#include "tests/transport/shm_pair.h"
#include "tests/worker/client.h"

#include <cstdio>
#include <fstream>

namespace sluice::test {
namespace {

class Staged : public WorkerClient {
 protected:
  void start_shared() { start(0, make_shm_pair()); }
  std::uint64_t write(std::uint64_t staging, std::uint64_t bytes) {
    wire::copy_h2d_staged args{};
    args.staging = staging;
    args.bytes = bytes;
    return post(args);
  }
  std::uint64_t read_into(std::uint64_t staging, std::uint64_t bytes) {
    wire::copy_d2h_staged args{};
    args.staging = staging;
    args.bytes = bytes;
    args.transfer = 7;
    return post(args);
  }
  /// In the memory of the channel, of which both ends are in this process.
  static bool is_shared(const void* address) {
    const auto wanted = reinterpret_cast<std::uintptr_t>(address);
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
      std::uintptr_t begin = 0, end = 0;
      if (std::sscanf(line.c_str(), "%lx-%lx", &begin, &end) == 2 && wanted >= begin &&
          wanted < end)
        return line.find("memfd:") != std::string::npos;
    }
    return false;
  }
};

TEST_F(Staged, TheDriverReadsSharedMemoryItself) {
  start_shared();
  write(4096, 65536);
  EXPECT_EQ(receive(wire::Opcode::staging_free).as<wire::staging_free>().staging, 4096U);
  EXPECT_TRUE(is_shared(driver_.copied_from()));
  write(8192, 65536);
  receive(wire::Opcode::staging_free);
  EXPECT_EQ(driver_.count("register"), 1U) << "registered once, for all copies";
}

TEST_F(Staged, TheDriverWritesSharedMemoryItself) {
  start_shared();
  read_into(8192, 1000);
  const auto push = receive(wire::Opcode::host_data_staged).as<wire::host_data_staged>();
  EXPECT_EQ(push.staging, 8192U);
  EXPECT_EQ(push.bytes, 1000U);
  EXPECT_EQ(push.transfer, 7U);
  EXPECT_TRUE(is_shared(driver_.copied_to()));
  EXPECT_EQ(channel_->staging()[8192 + 999], std::byte{0x5A});
  EXPECT_EQ(channel_->staging()[8192 + 1000], std::byte{0});
}

TEST_F(Staged, MemoryIsGivenBackOnlyWhenTheCopyHasRun) {
  // Broken: the program's next copy overwrites what the device has not read yet.
  start_shared();
  driver_.hold();
  write(0, 65536);
  read_into(65536, 65536);
  settle();
  const auto is_early = [](const Received& r) {
    return r.is(wire::Opcode::staging_free) || r.is(wire::Opcode::host_data_staged);
  };
  EXPECT_TRUE(std::none_of(received_.begin(), received_.end(), is_early));
  driver_.finish_all();
  receive(wire::Opcode::staging_free);
  receive(wire::Opcode::host_data_staged);
}

TEST_F(Staged, ADriverThatRefusesTheMemoryGetsCopies) {
  // Broken: on a driver without host registration every copy fails, or waits for the device.
  driver_.register_result = CUDA_ERROR_NOT_SUPPORTED;
  start_shared();
  channel_->staging()[0] = std::byte{1};
  write(0, 65536);
  receive(wire::Opcode::staging_free);
  EXPECT_FALSE(is_shared(driver_.copied_from()));
  read_into(0, 65536);
  receive(wire::Opcode::host_data_staged);
  EXPECT_FALSE(is_shared(driver_.copied_to()));
  EXPECT_EQ(channel_->staging()[65535], std::byte{0x5A});
  EXPECT_EQ(driver_.count("register"), 1U) << "asked once";
}

TEST_F(Staged, WhatLiesOutsideTheMemoryIsRefusedAndTheSessionLives) {
  // Broken: a client makes the worker copy its own memory, or crash.
  start_shared();
  const std::uint64_t all = channel_->staging().size();
  const std::pair<std::uint64_t, std::uint64_t> bad[] = {
      {all, 1}, {all - 1, 2}, {UINT64_MAX, 2}, {0, all + 1}, {0, UINT64_MAX}, {1, UINT64_MAX}};
  for (const auto& [staging, bytes] : bad) {
    const std::uint64_t written = write(staging, bytes);
    EXPECT_EQ(receive(wire::Opcode::staging_free).as<wire::staging_free>().staging, staging);
    const Received failure = receive(wire::Opcode::failure);
    EXPECT_EQ(failure.header.seq, written);
    EXPECT_EQ(failure.result(), CUDA_ERROR_INVALID_VALUE);
    read_into(staging, bytes);
    const Received data = receive(wire::Opcode::host_data_staged);
    EXPECT_EQ(data.result(), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(data.as<wire::host_data_staged>().bytes, 0U);
    receive(wire::Opcode::failure);
  }
  EXPECT_EQ(driver_.copied_from(), nullptr);
  EXPECT_EQ(driver_.copied_to(), nullptr);
  settle();
}

TEST_F(Staged, WithoutSharedMemoryItIsRefused) {
  start();
  write(0, 1);
  EXPECT_EQ(receive(wire::Opcode::failure).result(), CUDA_ERROR_INVALID_VALUE);
  read_into(0, 1);
  EXPECT_EQ(receive(wire::Opcode::host_data_staged).result(), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Staged, ItCountsInTheStatistics) {
  start_shared();
  write(0, 200'000);
  receive(wire::Opcode::staging_free);
  read_into(0, 100'000);
  receive(wire::Opcode::host_data_staged);
  EXPECT_GE(worker_->stats().bytes_in, 200'000U);
  EXPECT_GE(worker_->stats().bytes_out, 100'000U);
}

}  // namespace
}  // namespace sluice::test
