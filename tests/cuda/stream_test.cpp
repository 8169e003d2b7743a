// Streams: order, independence, the legacy and the per-thread default stream.
#include "tests/cuda/fixture.h"

#include <thread>

namespace sluice::test {

class StreamTest : public KernelTest {};

TEST_F(StreamTest, KeepsItsFlagsAndPriority) {
  CUstream stream = nullptr;
  unsigned flags = 99;
  ASSERT_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  ASSERT_OK(cuStreamGetFlags(stream, &flags));
  EXPECT_EQ(static_cast<unsigned>(CU_STREAM_NON_BLOCKING), flags);
  CUcontext owner = nullptr;
  ASSERT_OK(cuStreamGetCtx(stream, &owner));
  EXPECT_EQ(context_, owner);
  EXPECT_OK(cuStreamDestroy(stream));
}

TEST_F(StreamTest, IdleStreamsAreDone) {
  CUstream stream = nullptr;
  ASSERT_OK(cuStreamCreate(&stream, 0));
  EXPECT_OK(cuStreamQuery(stream));
  EXPECT_OK(cuStreamSynchronize(stream));
  EXPECT_OK(cuStreamQuery(nullptr));
}

TEST_F(StreamTest, IsDoneForAQueryBehindAnyWaitThatImpliesIt) {
  CUstream first = nullptr;
  CUstream second = nullptr;
  CUevent event = nullptr;
  ASSERT_OK(cuStreamCreate(&first, CU_STREAM_NON_BLOCKING));
  ASSERT_OK(cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
  ASSERT_OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  CUdeviceptr p = words(1);
  const auto work = [&] {
    unsigned k = 1;
    unsigned rotations = 20000;
    ASSERT_OK(launch("slow_set", {&p, &k, &rotations}, 1, 1, first));
    ASSERT_OK(cuEventRecord(event, first));
  };
  for (int round = 0; round < 10; ++round) {
    work();
    ASSERT_OK(cuEventSynchronize(event));
    EXPECT_OK(cuStreamQuery(first)) << "the event was its last command";
    work();
    ASSERT_OK(cuStreamWaitEvent(second, event, 0));
    ASSERT_OK(cuStreamSynchronize(second));
    EXPECT_OK(cuStreamQuery(first)) << "the other stream waited for it";
    work();
    ASSERT_OK(cuCtxSynchronize());
    EXPECT_OK(cuStreamQuery(first));
    work();
    CUresult result = CUDA_ERROR_NOT_READY;
    while (result == CUDA_ERROR_NOT_READY) result = cuEventQuery(event);
    ASSERT_OK(result);
    EXPECT_OK(cuStreamQuery(first)) << "a query of the event said so";
  }
}

TEST_F(StreamTest, AQueryThatSucceedsMeansTheWorkIsDone) {
  CUstream stream = nullptr;
  ASSERT_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  unsigned* pinned = nullptr;
  ASSERT_OK(cuMemAllocHost(reinterpret_cast<void**>(&pinned), 4));
  CUdeviceptr p = words(1);
  ASSERT_OK(cuCtxSynchronize());
  for (unsigned k = 1; k <= 20; ++k) {
    unsigned rotations = 20000;
    ASSERT_OK(launch("slow_set", {&p, &k, &rotations}, 1, 1, stream));
    ASSERT_OK(cuMemcpyDtoHAsync(pinned, p, 4, stream));
    CUresult result = CUDA_ERROR_NOT_READY;
    while (result == CUDA_ERROR_NOT_READY) result = cuStreamQuery(stream);
    ASSERT_OK(result);
    ASSERT_EQ(k, *static_cast<volatile unsigned*>(pinned));
  }
}

TEST_F(StreamTest, WaitingForAnEventOrdersTwoStreams) {
  CUstream first = nullptr;
  CUstream second = nullptr;
  CUevent event = nullptr;
  ASSERT_OK(cuStreamCreate(&first, CU_STREAM_NON_BLOCKING));
  ASSERT_OK(cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
  ASSERT_OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  CUdeviceptr p = words(1);
  unsigned n = 1;
  ASSERT_OK(cuCtxSynchronize());
  for (unsigned round = 0; round < 20; ++round) {
    unsigned value = round * 10;
    unsigned rotations = 20000;
    ASSERT_OK(launch("slow_set", {&p, &value, &rotations}, 1, 1, first));
    ASSERT_OK(cuEventRecord(event, first));
    ASSERT_OK(cuStreamWaitEvent(second, event, 0));
    ASSERT_OK(launch("add_one", {&p, &n}, 1, 1, second));
    ASSERT_OK(cuStreamSynchronize(second));
    ASSERT_EQ(value + 1, read_word(p));
  }
}

TEST_F(StreamTest, TheLegacyStreamWaitsForBlockingStreams) {
  CUstream stream = nullptr;
  ASSERT_OK(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
  CUdeviceptr p = words(1);
  unsigned value = 50;
  unsigned rotations = 200000;
  unsigned n = 1;
  ASSERT_OK(launch("slow_set", {&p, &value, &rotations}, 1, 1, stream));
  ASSERT_OK(launch("add_one", {&p, &n}));
  EXPECT_EQ(51u, read_word(p));
}

TEST_F(StreamTest, EveryThreadHasItsOwnDefaultStream) {
  CUdeviceptr p = words(8);
  ASSERT_OK(cuCtxSynchronize());
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t)
    threads.emplace_back([this, p, t] {
      EXPECT_OK(cuCtxSetCurrent(context_));
      CUdeviceptr word = p + 4 * t;
      unsigned n = 1;
      for (int i = 0; i < 50; ++i)
        EXPECT_OK(launch("add_one", {&word, &n}, 1, 1, CU_STREAM_PER_THREAD));
      EXPECT_OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    });
  for (auto& thread : threads) thread.join();
  for (unsigned t = 0; t < 4; ++t) EXPECT_EQ(50u, read_word(p + 4 * t));
}

TEST_F(StreamTest, WorkOfADestroyedStreamStillHappens) {
  CUdeviceptr p = words(1);
  for (unsigned round = 1; round <= 10; ++round) {
    CUstream stream = nullptr;
    ASSERT_OK(cuStreamCreate(&stream, 0));
    unsigned rotations = 20000;
    ASSERT_OK(launch("slow_set", {&p, &round, &rotations}, 1, 1, stream));
    ASSERT_OK(cuStreamDestroy(stream));
    EXPECT_OK(cuCtxSynchronize());
    EXPECT_EQ(round, read_word(p));
  }
}

TEST_F(StreamTest, ThreadsLaunchSideBySide) {
  // What threads of one program do at the same time on streams of their own arrives completely.
  const unsigned thread_count = 16;
  CUdeviceptr p = words(thread_count);
  ASSERT_OK(cuCtxSynchronize());
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < thread_count; ++t)
    threads.emplace_back([this, p, t] {
      EXPECT_OK(cuCtxSetCurrent(context_));
      CUstream stream = nullptr;
      EXPECT_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
      CUdeviceptr word = p + 4 * t;
      unsigned n = 1;
      CUfunction f = function("add_one");
      void* params[] = {&word, &n};
      for (int i = 0; i < 100; ++i) {
        EXPECT_OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, stream, params, nullptr));
        if (i % 10 == 9) {
          EXPECT_OK(cuStreamSynchronize(stream));
        }
      }
      EXPECT_OK(cuStreamDestroy(stream));
    });
  for (auto& thread : threads) thread.join();
  for (unsigned t = 0; t < thread_count; ++t)
    EXPECT_EQ(100u, read_word(p + 4 * t)) << "thread " << t;
}

}  // namespace sluice::test
