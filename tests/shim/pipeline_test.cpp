// The pipeline as the application sees it: order, when records reach the server, what waiting
// threads get.
#include "tests/shim/fake_server.h"

#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <future>

namespace sluice::test {

class Pipeline : public ShimTest {};

TEST_F(Pipeline, KeepsTheOrderOfEachOfSixteenThreads) {
  // Two commands of one thread that change places compute something else.
  start();
  CUfunction f = function();
  constexpr unsigned kThreads = 16;
  constexpr unsigned kLaunches = 500;
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      ASSERT_EQ(CUDA_SUCCESS, cuCtxSetCurrent(context_));
      for (unsigned i = 0; i < kLaunches; ++i) {
        ASSERT_EQ(CUDA_SUCCESS, launch(f, t, i));
        if (i % 50 == 49) {
          ASSERT_EQ(CUDA_SUCCESS, cuCtxSynchronize());
        }
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(CUDA_SUCCESS, cuCtxSynchronize());
  EXPECT_FALSE(server_->is_order_broken());
  std::vector<unsigned> next(kThreads, 0);
  const auto launches = server_->received(wire::Opcode::launch);
  ASSERT_EQ(kThreads * kLaunches, launches.size());
  for (const Received& record : launches) {
    std::uint64_t thread = 0;
    std::uint32_t number = 0;
    std::memcpy(&thread, record.blob<wire::launch>().data(), 8);
    std::memcpy(&number, record.blob<wire::launch>().data() + 8, 4);
    ASSERT_EQ(next[thread]++, number) << "thread " << thread;
  }
}

TEST_F(Pipeline, ALaunchOnAnIdlePipelineGoesAtOnce) {
  // The GPU would idle until the program next waits.
  start();
  CUfunction f = function();
  ASSERT_EQ(CUDA_SUCCESS, cuCtxSynchronize());
  ASSERT_EQ(CUDA_SUCCESS, launch(f));
  EXPECT_TRUE(server_->wait_for(wire::Opcode::launch, 1));
}

TEST_F(Pipeline, WhatNobodyFlushesGoesSoonAllTheSame) {
  start();
  CUfunction f = function();
  for (int i = 0; i < 10; ++i) ASSERT_EQ(CUDA_SUCCESS, launch(f));
  EXPECT_TRUE(server_->wait_for(wire::Opcode::launch, 10));
  ASSERT_EQ(CUDA_SUCCESS, launch(f));
  EXPECT_TRUE(server_->wait_for(wire::Opcode::launch, 11))
      << "the service thread did not wake again";
}

TEST_F(Pipeline, ASenderThatIsHeldBackCostsNoProcessorTime) {
  // Broken: while a slow worker holds a program back, the service thread takes the processor that
  // the worker needs.
  std::promise<void> go_on;
  const std::shared_future<void> may_go_on = go_on.get_future().share();
  start([may_go_on](FakeServer&, const Received& record) {
    if (record.header.opcode == static_cast<std::uint16_t>(wire::Opcode::launch)) may_go_on.wait();
    return false;
  });
  CUfunction f = function();
  std::atomic<int> posted = 0;
  std::thread sender([&] {
    ASSERT_EQ(CUDA_SUCCESS, cuCtxSetCurrent(context_));
    for (int i = 0; i < 30'000; ++i, ++posted) ASSERT_EQ(CUDA_SUCCESS, launch(f));
  });
  const auto used = [] {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    const auto us = [](const timeval& t) { return t.tv_sec * 1'000'000 + t.tv_usec; };
    return std::chrono::microseconds(us(usage.ru_utime) + us(usage.ru_stime));
  };
  const auto observed = std::chrono::milliseconds(200);
  int seen = 0;
  do {
    seen = posted;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  } while (seen != posted);
  ASSERT_LT(seen, 30'000) << "nothing holds the sender back";
  // It was all that the machine gave; now it is next to nothing, but for disturbances.
  auto least = std::chrono::microseconds(observed);
  for (int i = 0; i < 5 && least > observed / 20; ++i) {
    const auto before = used();
    std::this_thread::sleep_for(observed);
    least = std::min(least, used() - before);
  }
  EXPECT_LE(least, observed / 20);
  go_on.set_value();
  sender.join();
}

TEST_F(Pipeline, EveryWaiterReturnsWhenTheServerDies) {
  // A program must not hang for ever because a GPU server crashed.
  std::atomic<int> waiting{0};
  start([&](FakeServer&, const Received& record) {
    if (record.header.opcode != static_cast<std::uint16_t>(wire::Opcode::cuCtxSynchronize))
      return false;
    ++waiting;
    return true;
  });
  std::vector<std::thread> threads;
  std::atomic<int> lost{0};
  for (int t = 0; t < 16; ++t)
    threads.emplace_back([&] {
      EXPECT_EQ(CUDA_SUCCESS, cuCtxSetCurrent(context_));
      if (cuCtxSynchronize() == CUDA_ERROR_DEVICE_UNAVAILABLE) ++lost;
    });
  ASSERT_TRUE(server_->wait_for(wire::Opcode::cuCtxSynchronize, 16));
  server_->die();
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(16, lost.load());
  CUdeviceptr p = 0;
  EXPECT_EQ(CUDA_ERROR_DEVICE_UNAVAILABLE, cuMemAlloc_v2(&p, 16)) << "later calls";
  int count = 0;
  EXPECT_EQ(CUDA_SUCCESS, cuDeviceGetCount(&count)) << "what needs no server is still answered";
  TearDown();  // the hook uses what lives here
}

TEST_F(Pipeline, TheEndOfTheLifeLineEndsAWaitWithinTwoSeconds) {
  int ends[2];
  ASSERT_EQ(0, ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends));
  Fd broker(ends[1]);
  start(
      [](FakeServer&, const Received& record) {
        return record.header.opcode == static_cast<std::uint16_t>(wire::Opcode::cuCtxSynchronize);
      },
      Fd(ends[0]));
  CUresult result = CUDA_SUCCESS;
  std::thread waiter([&] {
    cuCtxSetCurrent(context_);
    result = cuCtxSynchronize();
  });
  ASSERT_TRUE(server_->wait_for(wire::Opcode::cuCtxSynchronize, 1));
  const auto start_time = std::chrono::steady_clock::now();
  broker.reset();
  waiter.join();
  EXPECT_EQ(CUDA_ERROR_DEVICE_UNAVAILABLE, result);
  EXPECT_LT(std::chrono::steady_clock::now() - start_time, std::chrono::seconds(2));
}

TEST_F(Pipeline, RepliesInAnyOrderReachTheirCallers) {
  // Threads that wait at the same time must not get each other's answers.
  constexpr std::size_t kThreads = 8;
  ::setenv("SLUICE_DISABLE", "arena", 1);  // every allocation asks
  std::vector<Received> held;
  start([&](FakeServer& server, const Received& record) {
    if (record.header.opcode != static_cast<std::uint16_t>(wire::Opcode::cuMemAlloc_v2))
      return false;
    held.push_back(record);
    if (held.size() < kThreads) return true;
    for (auto at = held.rbegin(); at != held.rend(); ++at) {
      wire::cuMemAlloc_v2::Reply made{};
      made.dptr = 0x1000 * at->as<wire::cuMemAlloc_v2>().bytesize;
      server.reply(*at, made);
    }
    held.clear();
    return true;
  });
  std::vector<std::thread> threads;
  for (std::size_t t = 1; t <= kThreads; ++t)
    threads.emplace_back([&, t] {
      cuCtxSetCurrent(context_);
      for (int i = 0; i < 100; ++i) {
        CUdeviceptr p = 0;
        ASSERT_EQ(CUDA_SUCCESS, cuMemAlloc_v2(&p, 512 * t));
        ASSERT_EQ(0x1000 * 512 * t, p);
      }
    });
  for (auto& thread : threads) thread.join();
  TearDown();  // the hook uses what lives here
  ::unsetenv("SLUICE_DISABLE");
}

struct Malformed {
  const char* what;
  void (*send)(FakeServer&, const Received&);
};
class MalformedAnswers : public ShimTest, public ::testing::WithParamInterface<Malformed> {};

TEST_P(MalformedAnswers, EndTheSessionAndNotTheProgram) {
  start([&](FakeServer& server, const Received& record) {
    if (record.header.opcode != static_cast<std::uint16_t>(wire::Opcode::cuMemAlloc_v2))
      return false;
    GetParam().send(server, record);
    return true;
  });
  CUdeviceptr p = 0;
  EXPECT_EQ(CUDA_ERROR_DEVICE_UNAVAILABLE, cuMemAlloc_v2(&p, 4 << 20));
  EXPECT_EQ(CUDA_ERROR_DEVICE_UNAVAILABLE, cuCtxSynchronize());
}

INSTANTIATE_TEST_SUITE_P(
    Shim, MalformedAnswers,
    ::testing::Values(Malformed{"ShortReply",
                                [](FakeServer& s, const Received& r) {
                                  s.send(head(r.header.opcode, wire::kFlagReply, r.header.seq), {},
                                         {});
                                }},
                      Malformed{"LongReply",
                                [](FakeServer& s, const Received& r) {
                                  const std::byte extra[16]{};
                                  s.reply(r, wire::cuMemAlloc_v2::Reply{}, extra);
                                }},
                      Malformed{"UnknownSeq",
                                [](FakeServer& s, const Received& r) {
                                  s.send(
                                      head(r.header.opcode, wire::kFlagReply, r.header.seq + 100),
                                      {}, {});
                                }},
                      Malformed{"SeqOfNobody",
                                [](FakeServer& s, const Received& r) {
                                  s.send(head(r.header.opcode, wire::kFlagReply, 1), {}, {});
                                }},
                      Malformed{"NeitherReplyNorPush",
                                [](FakeServer& s, const Received& r) {
                                  s.send(head(r.header.opcode, 0, r.header.seq), {}, {});
                                }},
                      Malformed{"UnknownPush",
                                [](FakeServer& s, const Received&) {
                                  s.send(head(60000, wire::kFlagPush, 0), {}, {});
                                }},
                      Malformed{"ShortPush",
                                [](FakeServer& s, const Received&) {
                                  s.send(head(static_cast<std::uint16_t>(wire::Opcode::event_done),
                                              wire::kFlagPush, 0),
                                         {}, {});
                                }},
                      Malformed{"HostDataForNobody",
                                [](FakeServer& s, const Received&) {
                                  wire::host_data data{};
                                  data.transfer = 12345;
                                  s.push(data);
                                }},
                      Malformed{"HugeVariablePart",
                                [](FakeServer& s, const Received&) {
                                  wire::host_data data{};
                                  data.data_bytes = ~std::uint64_t{0};
                                  s.push(data);
                                }},
                      Malformed{"CreditForNothing",
                                [](FakeServer& s, const Received&) {
                                  wire::copy_credit credit{};
                                  credit.h2d_bytes = 1;
                                  s.push(credit);
                                }},
                      Malformed{"FailureThatIsNone",
                                [](FakeServer& s, const Received&) { s.push(wire::failure{}); }}),
    [](const auto& test) { return std::string(test.param.what); });

}  // namespace sluice::test
