// Sixteen threads of one program that use everything at once: the pipeline, the replies and the
// objects are shared, what the threads compute is not.
#include "tests/cuda/fixture.h"

#include <atomic>
#include <memory>
#include <thread>

namespace sluice::test {

class Threads : public KernelTest {
 protected:
  static constexpr unsigned kThreads = 16;
  static constexpr unsigned kRounds = 12;
  static constexpr unsigned kWords = 2048;

  template <class Body>
  void on_all(const Body& body) {
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < kThreads; ++t)
      threads.emplace_back([this, &body, t] {
        ASSERT_OK(cuCtxSetCurrent(context_));
        body(t);
      });
    for (std::thread& thread : threads) thread.join();
  }

  /// Uploads, adds one on the device, downloads to pageable or to pinned memory; in one stream.
  void compute(CUfunction add_one, CUstream stream, unsigned value, bool is_pinned) {
    CUdeviceptr p = 0;
    ASSERT_OK(cuMemAllocAsync(&p, kWords * 4, stream));
    {
      const std::vector<unsigned> source(kWords, value);
      ASSERT_OK(cuMemcpyHtoDAsync(p, source.data(), kWords * 4, stream));
    }
    unsigned n = kWords;
    void* params[] = {&p, &n};
    ASSERT_OK(cuLaunchKernel(add_one, kWords / 64, 1, 1, 64, 1, 1, 0, stream, params, nullptr));
    std::vector<unsigned> pageable(kWords);
    void* pinned = nullptr;
    if (is_pinned) {
      ASSERT_OK(cuMemHostAlloc(&pinned, kWords * 4, 0));
    }
    unsigned* const target = is_pinned ? static_cast<unsigned*>(pinned) : pageable.data();
    ASSERT_OK(cuMemcpyDtoHAsync(target, p, kWords * 4, stream));
    ASSERT_OK(cuMemFreeAsync(p, stream));
    ASSERT_OK(cuStreamSynchronize(stream));
    for (unsigned i = 0; i < kWords; ++i) ASSERT_EQ(value + 1, target[i]) << "word " << i;
    if (is_pinned) {
      ASSERT_OK(cuMemFreeHost(pinned));
    }
  }
};

TEST_F(Threads, ComputeEachTheirOwnInStreamsOfTheirOwn) {
  const CUfunction add_one = function("add_one");
  on_all([&](unsigned t) {
    CUstream stream = nullptr;
    ASSERT_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (unsigned round = 0; round < kRounds; ++round)
      compute(add_one, stream, 1000 * t + round, round % 2 == 1);
    ASSERT_OK(cuStreamDestroy(stream));
  });
}

TEST_F(Threads, HandWorkAroundARingByEvents) {
  // Thread t's stream waits for the event of thread t - 1: together one chain over all streams.
  const CUfunction add_one = function("add_one");
  CUdeviceptr word = words(1);
  ASSERT_OK(cuCtxSynchronize());
  std::vector<CUstream> streams(kThreads);
  std::vector<CUevent> events(kThreads);
  for (unsigned t = 0; t < kThreads; ++t) {
    ASSERT_OK(cuStreamCreate(&streams[t], CU_STREAM_NON_BLOCKING));
    ASSERT_OK(cuEventCreate(&events[t], CU_EVENT_DISABLE_TIMING));
  }
  std::atomic<unsigned> turn{0};
  on_all([&](unsigned t) {
    for (unsigned round = 0; round < kRounds; ++round) {
      while (turn.load() != round * kThreads + t) std::this_thread::yield();
      ASSERT_OK(cuStreamWaitEvent(streams[t], events[(t + kThreads - 1) % kThreads], 0));
      unsigned n = 1;
      void* params[] = {&word, &n};
      ASSERT_OK(cuLaunchKernel(add_one, 1, 1, 1, 1, 1, 1, 0, streams[t], params, nullptr));
      ASSERT_OK(cuEventRecord(events[t], streams[t]));
      ++turn;
    }
  });
  ASSERT_OK(cuStreamSynchronize(streams.back()));
  EXPECT_EQ(kThreads * kRounds, read_word(word));
  for (unsigned t = 0; t < kThreads; ++t) {
    EXPECT_OK(cuEventDestroy(events[t]));
    EXPECT_OK(cuStreamDestroy(streams[t]));
  }
}

TEST_F(Threads, LoadAndUnloadModulesWhileOthersLaunch) {
  on_all([&](unsigned) {
    for (unsigned round = 0; round < 3; ++round) {
      CUmodule own = nullptr;
      ASSERT_OK(cuModuleLoadData(&own, kPtx));
      CUfunction bump = nullptr;
      ASSERT_OK(cuModuleGetFunction(&bump, own, "bump_counter"));
      for (int i = 0; i < 3; ++i)
        ASSERT_OK(
            cuLaunchKernel(bump, 1, 1, 1, 1, 1, 1, 0, CU_STREAM_PER_THREAD, nullptr, nullptr));
      CUdeviceptr counter = 0;
      std::size_t bytes = 0;
      ASSERT_OK(cuModuleGetGlobal(&counter, &bytes, own, "counter"));
      ASSERT_OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
      EXPECT_EQ(10u, read_word(counter));
      ASSERT_OK(cuModuleUnload(own));
    }
  });
}

TEST_F(Threads, HostFunctionsOfAllStreamsRunOnceEach) {
  std::atomic<unsigned> calls{0};
  on_all([&](unsigned) {
    CUstream stream = nullptr;
    ASSERT_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (unsigned round = 0; round < kRounds; ++round)
      ASSERT_OK(cuLaunchHostFunc(
          stream, [](void* counter) { ++*static_cast<std::atomic<unsigned>*>(counter); }, &calls));
    ASSERT_OK(cuStreamSynchronize(stream));
    ASSERT_OK(cuStreamDestroy(stream));
  });
  EXPECT_EQ(kThreads * kRounds, calls.load());
}

}  // namespace sluice::test
