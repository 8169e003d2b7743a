// Allocation and free without round trips, and what the worker is told about them.
#include "protocol/block_use.h"
#include "tests/shim/fake_server.h"

namespace sluice::test {
namespace {

using wire::Opcode;
constexpr std::size_t kMiB = std::size_t{1} << 20;

class DeviceMemory : public ShimTest {
 protected:
  std::uint64_t round_trips() { return shim::session().pipeline().traffic().round_trips; }
  static bool is(const Received& record, Opcode opcode) {
    return record.header.opcode == static_cast<std::uint16_t>(opcode);
  }
  void fence_is_done(const Received& fence) {
    server_->push(wire::memory_fence_done{}, {}, CUDA_SUCCESS, fence.header.seq);
  }
};

TEST_F(DeviceMemory, AllocationAndFreeCostNoRoundTripOnceTheMemoryIsThere) {
  start();
  const CUdeviceptr p = allocate(4 * kMiB);
  const CUdeviceptr small = allocate(100);
  EXPECT_EQ(CUDA_SUCCESS, cuMemFree_v2(p));
  EXPECT_EQ(CUDA_SUCCESS, cuMemFree_v2(small));
  ASSERT_EQ(CUDA_SUCCESS, cuCtxSynchronize());
  const std::uint64_t before = round_trips();
  for (int i = 0; i < 100; ++i) {
    const CUdeviceptr again = allocate(4 * kMiB);
    const CUdeviceptr part = allocate(100);
    EXPECT_EQ(p, again);
    EXPECT_EQ(CUDA_SUCCESS, cuMemFree_v2(again));
    EXPECT_EQ(CUDA_SUCCESS, cuMemFree_v2(part));
  }
  EXPECT_EQ(before, round_trips());
  EXPECT_EQ(1u, server_->count(Opcode::cuMemAlloc_v2));
  EXPECT_EQ(1u, server_->count(Opcode::memory_block));
}

TEST_F(DeviceMemory, ManySmallAllocationsCostOneRoundTripPerSlab) {
  start();
  for (int i = 0; i < 4096; ++i) allocate(512);
  EXPECT_EQ(1u, server_->count(Opcode::memory_block));
  allocate(512);
  EXPECT_EQ(2u, server_->count(Opcode::memory_block));
}

TEST_F(DeviceMemory, SlabsAndPoolsAreAskedForAsSuch) {
  start();
  CUdeviceptr p = 0;
  allocate(4 * kMiB);
  allocate(100);
  ASSERT_EQ(CUDA_SUCCESS, cuMemAllocAsync(&p, 6 * kMiB, nullptr));
  const auto blocks = server_->received(Opcode::memory_block);
  ASSERT_EQ(2u, blocks.size());
  EXPECT_EQ(static_cast<std::uint32_t>(wire::BlockUse::kSlab),
            blocks[0].as<wire::memory_block>().use);
  EXPECT_EQ(static_cast<std::uint32_t>(wire::BlockUse::kPool),
            blocks[1].as<wire::memory_block>().use);
  EXPECT_EQ(6 * kMiB, blocks[1].as<wire::memory_block>().bytes);
  EXPECT_EQ(1u, server_->count(Opcode::cuMemAlloc_v2)) << "the program's own";
}

TEST_F(DeviceMemory, MemoryThatTheDeviceMayStillUseIsGivenOutWhenItIsDone) {
  std::atomic<bool> holds{true};
  start([&](FakeServer&, const Received& record) {
    return holds && is(record, Opcode::memory_fence);
  });
  const CUfunction f = function();
  const CUdeviceptr p = allocate(4 * kMiB);
  ASSERT_EQ(CUDA_SUCCESS, launch(f, p));
  ASSERT_EQ(CUDA_SUCCESS, cuMemFree_v2(p));
  ASSERT_TRUE(server_->wait_for(Opcode::memory_fence, 1));
  EXPECT_EQ(1u, server_->count(Opcode::cuMemAlloc_v2));
  std::atomic<CUdeviceptr> next{0};
  std::thread other([&] {
    cuCtxSetCurrent(context_);
    next = allocate(4 * kMiB);
  });
  EXPECT_NE(p, allocate(8 * kMiB)) << "another size needs no waiting";
  EXPECT_EQ(0u, next.load());
  fence_is_done(server_->received(Opcode::memory_fence)[0]);
  other.join();
  EXPECT_EQ(p, next.load());
  TearDown();  // the hook uses what lives here
}

TEST_F(DeviceMemory, FreesOneAfterTheOtherShareAFence) {
  start();
  const CUfunction f = function();
  const CUdeviceptr a = allocate(4 * kMiB);
  const CUdeviceptr b = allocate(4 * kMiB);
  ASSERT_EQ(CUDA_SUCCESS, launch(f, a));
  ASSERT_EQ(CUDA_SUCCESS, cuMemFree_v2(a));
  ASSERT_EQ(CUDA_SUCCESS, cuMemFree_v2(b));
  EXPECT_EQ(a, allocate(4 * kMiB));
  EXPECT_EQ(b, allocate(4 * kMiB));
  EXPECT_EQ(1u, server_->count(Opcode::memory_fence));
}

TEST_F(DeviceMemory, StreamOrderedAllocationCostsNoRoundTripAndNoFence) {
  start();
  const CUfunction f = function();
  CUstream stream = nullptr;
  ASSERT_EQ(CUDA_SUCCESS, cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CUdeviceptr first = 0;
  ASSERT_EQ(CUDA_SUCCESS, cuMemAllocAsync(&first, 4 * kMiB, stream));
  ASSERT_EQ(CUDA_SUCCESS, cuMemFreeAsync(first, stream));
  const std::uint64_t before = round_trips();
  for (int i = 0; i < 100; ++i) {
    CUdeviceptr p = 0;
    ASSERT_EQ(CUDA_SUCCESS, cuMemAllocAsync(&p, 4 * kMiB, stream));
    EXPECT_EQ(first, p);
    ASSERT_EQ(CUDA_SUCCESS, launch(f, p, 0, stream));
    ASSERT_EQ(CUDA_SUCCESS, cuMemFreeAsync(p, stream));
  }
  EXPECT_EQ(before, round_trips());
  EXPECT_EQ(0u, server_->count(Opcode::memory_fence));
}

TEST_F(DeviceMemory, AnotherStreamGetsOtherMemoryUntilEverythingIsDone) {
  start();
  const CUfunction f = function();
  CUstream a = nullptr, b = nullptr;
  ASSERT_EQ(CUDA_SUCCESS, cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
  ASSERT_EQ(CUDA_SUCCESS, cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
  CUdeviceptr p = 0, q = 0, r = 0;
  ASSERT_EQ(CUDA_SUCCESS, cuMemAllocAsync(&p, 4 * kMiB, a));
  ASSERT_EQ(CUDA_SUCCESS, launch(f, p, 0, a));
  ASSERT_EQ(CUDA_SUCCESS, cuMemFreeAsync(p, a));
  ASSERT_EQ(CUDA_SUCCESS, cuMemAllocAsync(&q, 4 * kMiB, b));
  EXPECT_NE(p, q);
  ASSERT_EQ(CUDA_SUCCESS, cuCtxSynchronize());
  ASSERT_EQ(CUDA_SUCCESS, cuMemAllocAsync(&r, 4 * kMiB, b));
  EXPECT_EQ(p, r);
}

TEST_F(DeviceMemory, WhatIsKeptGoesBackBeforeTheProgramIsRefused) {
  std::size_t held = 0;
  start([&](FakeServer& server, const Received& record) {
    // A slice of 16 MiB.
    if (is(record, Opcode::cuMemFree_v2)) held -= 8 * kMiB;
    if (!is(record, Opcode::cuMemAlloc_v2)) return false;
    const std::size_t bytes = record.as<wire::cuMemAlloc_v2>().bytesize;
    if (held + bytes > 16 * kMiB) {
      server.reply(record, wire::cuMemAlloc_v2::Reply{}, {}, CUDA_ERROR_OUT_OF_MEMORY);
      return true;
    }
    held += bytes;
    return false;
  });
  const CUdeviceptr a = allocate(8 * kMiB);
  const CUdeviceptr b = allocate(8 * kMiB);
  CUdeviceptr p = 0;
  EXPECT_EQ(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc_v2(&p, 2 * kMiB));
  EXPECT_EQ(CUDA_SUCCESS, cuMemFree_v2(a));
  EXPECT_EQ(CUDA_SUCCESS, cuMemFree_v2(b));
  EXPECT_EQ(CUDA_SUCCESS, cuMemAlloc_v2(&p, 16 * kMiB));
  EXPECT_EQ(2u, server_->count(Opcode::cuMemFree_v2));
  TearDown();  // the hook uses what lives here
}

TEST_F(DeviceMemory, TheLastOfASliceIsUsedToTheEnd) {
  std::vector<std::size_t> asked;
  start([&](FakeServer& server, const Received& record) {
    if (is(record, Opcode::cuMemAlloc_v2))  // all that is left
      asked.push_back(record.as<wire::cuMemAlloc_v2>().bytesize);
    if (!is(record, Opcode::memory_block)) return false;
    server.reply(record, wire::memory_block::Reply{}, {}, CUDA_ERROR_OUT_OF_MEMORY);
    return true;
  });
  CUdeviceptr p = 0;
  ASSERT_EQ(CUDA_SUCCESS, cuMemAlloc_v2(&p, 1000 * 1000));
  EXPECT_EQ(1'000'448u, asked.back());
  EXPECT_EQ(CUDA_SUCCESS, cuMemFree_v2(p));
  EXPECT_TRUE(server_->wait_for(Opcode::cuMemFree_v2, 1)) << "less than a granule is not kept";
  TearDown();  // the hook uses what lives here
}

TEST_F(DeviceMemory, WhatTheProgramDoesNotUseForAWhileGoesBack) {
  start();
  ASSERT_EQ(CUDA_SUCCESS, cuMemFree_v2(allocate(4 * kMiB)));
  EXPECT_TRUE(server_->wait_for(Opcode::cuMemFree_v2, 1));
  allocate(4 * kMiB);
  EXPECT_EQ(2u, server_->count(Opcode::cuMemAlloc_v2));
}

TEST_F(DeviceMemory, FreedMemoryThatWasInUseGoesBackAfterAWhileToo) {
  start();
  const CUfunction f = function();
  const CUdeviceptr p = allocate(4 * kMiB);
  ASSERT_EQ(CUDA_SUCCESS, launch(f, p));
  ASSERT_EQ(CUDA_SUCCESS, cuMemFree_v2(p));
  EXPECT_TRUE(server_->wait_for(Opcode::cuMemFree_v2, 1));
}

TEST_F(DeviceMemory, WhatIsKeptIsFreeToTheProgram) {
  start([&](FakeServer& server, const Received& record) {
    if (!is(record, Opcode::cuMemGetInfo_v2)) return false;
    wire::cuMemGetInfo_v2::Reply info{};
    info.free = 100 * kMiB;
    info.total = 104 * kMiB;
    server.reply(record, info);
    return true;
  });
  const CUdeviceptr p = allocate(4 * kMiB);
  std::size_t free_bytes = 0, total_bytes = 0;
  ASSERT_EQ(CUDA_SUCCESS, cuMemGetInfo_v2(&free_bytes, &total_bytes));
  EXPECT_EQ(100 * kMiB, free_bytes);
  ASSERT_EQ(CUDA_SUCCESS, cuMemFree_v2(p));
  ASSERT_EQ(CUDA_SUCCESS, cuMemGetInfo_v2(&free_bytes, &total_bytes));
  EXPECT_EQ(104 * kMiB, free_bytes);
}

TEST_F(DeviceMemory, WhatGoesBackWhileTheProgramAsksIsCountedOnce) {
  // Broken: the server still counts it as used and the program no longer as its own.
  const auto answer = [](FakeServer& server, const Received& record, std::size_t free_bytes) {
    wire::cuMemGetInfo_v2::Reply info{};
    info.free = free_bytes;
    info.total = 104 * kMiB;
    server.reply(record, info);
  };
  std::atomic<int> asked{0};
  start([&](FakeServer& server, const Received& record) {
    if (!is(record, Opcode::cuMemGetInfo_v2)) return false;
    if (asked++ > 0) answer(server, record, 104 * kMiB);
    return true;
  });
  ASSERT_EQ(CUDA_SUCCESS, cuMemFree_v2(allocate(4 * kMiB)));
  std::thread late([&] {
    EXPECT_TRUE(server_->wait_for(Opcode::cuMemGetInfo_v2, 1));
    EXPECT_TRUE(server_->wait_for(Opcode::cuMemFree_v2, 1)) << "it is kept for ever";
    answer(*server_, server_->received(Opcode::cuMemGetInfo_v2)[0], 100 * kMiB);
  });
  std::size_t free_bytes = 0, total_bytes = 0;
  EXPECT_EQ(CUDA_SUCCESS, cuMemGetInfo_v2(&free_bytes, &total_bytes));
  late.join();
  EXPECT_EQ(104 * kMiB, free_bytes);
  TearDown();  // the hook uses what lives here
}

TEST_F(DeviceMemory, TheServerIsToldWhatIsKept) {
  start();
  const CUdeviceptr p = allocate(4 * kMiB);
  // Not at each free, but before long, whatever happens in between.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  ASSERT_EQ(CUDA_SUCCESS, cuMemFree_v2(p));
  const auto was_told = [&] {
    const auto told = server_->received(Opcode::memory_spare);
    return !told.empty() && told.back().as<wire::memory_spare>().bytes == 4 * kMiB;
  };
  while (!was_told() && std::chrono::steady_clock::now() < deadline)
    ASSERT_EQ(CUDA_SUCCESS, cuMemFree_v2(allocate(4 * kMiB)));
  EXPECT_TRUE(was_told());
}

TEST_F(DeviceMemory, AContextTakesItsMemoryWithIt) {
  start();
  const CUdeviceptr p = allocate(4 * kMiB);
  ASSERT_EQ(CUDA_SUCCESS, cuMemFree_v2(p));
  ASSERT_EQ(CUDA_SUCCESS, cuCtxDestroy_v2(context_));
  ASSERT_EQ(CUDA_SUCCESS, cuCtxCreate_v4(&context_, nullptr, 0, 0));
  EXPECT_NE(p, allocate(4 * kMiB));
  EXPECT_EQ(2u, server_->count(Opcode::cuMemAlloc_v2));
}

TEST_F(DeviceMemory, ManyThreadsAllocateAndFree) {
  start();
  const CUfunction f = function();
  std::vector<std::thread> threads;
  std::mutex mutex;
  std::map<CUdeviceptr, std::size_t> live;
  std::atomic<int> overlaps{0};
  for (unsigned t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      cuCtxSetCurrent(context_);
      for (unsigned i = 0; i < 300; ++i) {
        const std::size_t bytes = (i + t) % 5 == 0 ? 2 * kMiB : 512 * (1 + (i * 7 + t) % 300);
        const CUdeviceptr p = allocate(bytes);
        {
          const std::lock_guard lock(mutex);
          const auto next = live.lower_bound(p);
          if (next != live.end() && p + bytes > next->first) ++overlaps;
          live[p] = bytes;
        }
        if (i % 3 == 0) launch(f, p);
        {
          const std::lock_guard lock(mutex);
          live.erase(p);
        }
        EXPECT_EQ(CUDA_SUCCESS, cuMemFree_v2(p));
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(0, overlaps.load());
}

}  // namespace
}  // namespace sluice::test
