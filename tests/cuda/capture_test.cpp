// Row capture: what is legal while streams capture, and what the graphs then do.
#include "tests/cuda/fixture.h"

#include <cstring>
#include <thread>

namespace {

using namespace sluice::test;

class Capture : public KernelTest {
 protected:
  void SetUp() override {
    KernelTest::SetUp();
    if (HasFatalFailure()) return;
    ASSERT_OK(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING));
    ASSERT_OK(cuStreamCreate(&other_, CU_STREAM_NON_BLOCKING));
    ASSERT_OK(cuEventCreate(&event_, CU_EVENT_DISABLE_TIMING));
  }

  /// The streams here do not wait for the legacy stream, which sets the memory.
  CUdeviceptr words(std::size_t count, unsigned value = 0) {
    const CUdeviceptr p = KernelTest::words(count, value);
    EXPECT_OK(cuStreamSynchronize(nullptr));
    return p;
  }
  void begin(CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED) {
    ASSERT_OK(cuStreamBeginCapture(stream_, mode));
  }
  CUgraphExec end() {
    CUgraph graph = nullptr;
    EXPECT_OK(cuStreamEndCapture(stream_, &graph));
    CUgraphExec exec = nullptr;
    EXPECT_OK(cuGraphInstantiate(&exec, graph, 0));
    EXPECT_OK(cuGraphDestroy(graph));
    return exec;
  }
  void expect_no_graph(CUresult expected) {
    CUgraph graph = nullptr;
    EXPECT_CU(expected, cuStreamEndCapture(stream_, &graph));
    EXPECT_EQ(graph, nullptr);
    expect_usable(stream_);
    expect_usable(other_);
  }
  void expect_usable(CUstream stream) {
    const CUdeviceptr p = words(1);
    unsigned value = 77;
    void* data = const_cast<CUdeviceptr*>(&p);
    EXPECT_OK(launch("set_value", {data, &value}, 1, 1, stream));
    EXPECT_OK(cuStreamSynchronize(stream));
    EXPECT_EQ(read_word(p), 77u);
    EXPECT_OK(cuMemFree(p));
  }
  void set(CUdeviceptr p, unsigned value, CUstream stream) {
    ASSERT_OK(launch("set_value", {&p, &value}, 1, 1, stream));
  }
  void add_one(CUdeviceptr p, CUstream stream) {
    unsigned n = 1;
    ASSERT_OK(launch("add_one", {&p, &n}, 1, 1, stream));
  }
  unsigned* pinned(std::size_t count) {
    void* p = nullptr;
    EXPECT_OK(cuMemHostAlloc(&p, count * 4, 0));
    std::memset(p, 0, count * 4);
    return static_cast<unsigned*>(p);
  }

  CUstream stream_ = nullptr, other_ = nullptr;
  CUevent event_ = nullptr;
};

TEST_F(Capture, NothingRunsBeforeTheLaunch) {
  const CUdeviceptr p = words(1, 5);
  begin();
  set(p, 9, stream_);
  CUgraphExec exec = end();
  EXPECT_OK(cuCtxSynchronize());
  EXPECT_EQ(read_word(p), 5u);
  EXPECT_OK(cuGraphLaunch(exec, stream_));
  EXPECT_OK(cuStreamSynchronize(stream_));
  EXPECT_EQ(read_word(p), 9u);
  EXPECT_OK(cuGraphExecDestroy(exec));
}

TEST_F(Capture, StatusAndIdAreTold) {
  CUstreamCaptureStatus status{};
  cuuint64_t id = 0;
  EXPECT_OK(cuStreamIsCapturing(stream_, &status));
  EXPECT_EQ(status, CU_STREAM_CAPTURE_STATUS_NONE);
  begin();
  EXPECT_OK(cuStreamIsCapturing(stream_, &status));
  EXPECT_EQ(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
  EXPECT_OK(cuStreamGetCaptureInfo(stream_, &status, &id, nullptr, nullptr, nullptr, nullptr));
  EXPECT_EQ(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
  EXPECT_NE(id, 0u);
  EXPECT_OK(cuStreamIsCapturing(other_, &status));
  EXPECT_EQ(status, CU_STREAM_CAPTURE_STATUS_NONE);
  EXPECT_OK(cuGraphExecDestroy(end()));
}

TEST_F(Capture, AJoinedForkRunsInItsOrder) {
  const CUdeviceptr p = words(2);
  CUevent joined = nullptr;
  ASSERT_OK(cuEventCreate(&joined, CU_EVENT_DISABLE_TIMING));
  begin();
  set(p, 10, stream_);
  ASSERT_OK(cuEventRecord(event_, stream_));
  ASSERT_OK(cuStreamWaitEvent(other_, event_, 0));
  ASSERT_OK(cuMemcpyDtoDAsync(p + 4, p, 4, other_));
  ASSERT_OK(cuEventRecord(joined, other_));
  ASSERT_OK(cuStreamWaitEvent(stream_, joined, 0));
  add_one(p + 4, stream_);
  CUgraphExec exec = end();
  for (int i = 0; i < 3; ++i) {
    EXPECT_OK(cuMemsetD32(p, 0, 2));
    EXPECT_OK(cuStreamSynchronize(nullptr));
    EXPECT_OK(cuGraphLaunch(exec, other_));
    EXPECT_OK(cuStreamSynchronize(other_));
    EXPECT_EQ(read_word(p + 4), 11u);
  }
  EXPECT_OK(cuGraphExecDestroy(exec));
}

TEST_F(Capture, AnUnjoinedForkIsAnError) {
  const CUdeviceptr p = words(1);
  begin();
  ASSERT_OK(cuEventRecord(event_, stream_));
  ASSERT_OK(cuStreamWaitEvent(other_, event_, 0));
  set(p, 1, other_);
  expect_no_graph(CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
}

TEST_F(Capture, OnlyTheStreamWhereItBeganEndsIt) {
  begin();
  ASSERT_OK(cuEventRecord(event_, stream_));
  ASSERT_OK(cuStreamWaitEvent(other_, event_, 0));
  CUgraph graph = nullptr;
  EXPECT_CU(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, cuStreamEndCapture(other_, &graph));
  EXPECT_OK(cuGraphExecDestroy(end()));
}

TEST_F(Capture, WaitingForTheStreamSpoilsIt) {
  begin();
  EXPECT_CU(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamSynchronize(stream_));
  unsigned value = 1;
  CUdeviceptr p = 8;
  EXPECT_CU(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
            launch("set_value", {&p, &value}, 1, 1, stream_));
  expect_no_graph(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

TEST_F(Capture, ACapturedEventCannotBeAskedOrWaitedFor) {
  begin();
  ASSERT_OK(cuEventRecord(event_, stream_));
  EXPECT_CU(CUDA_ERROR_CAPTURED_EVENT, cuEventQuery(event_));
  EXPECT_CU(CUDA_ERROR_CAPTURED_EVENT, cuEventSynchronize(event_));
  EXPECT_OK(cuGraphExecDestroy(end()));
  // An ordinary record makes it an ordinary event again.
  ASSERT_OK(cuEventRecord(event_, stream_));
  EXPECT_OK(cuEventSynchronize(event_));
}

TEST_F(Capture, UncapturedWorkCannotBeWaitedFor) {
  ASSERT_OK(cuEventRecord(event_, other_));
  begin();
  EXPECT_CU(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, cuStreamWaitEvent(stream_, event_, 0));
  CUgraph graph = nullptr;
  if (cuStreamEndCapture(stream_, &graph) == CUDA_SUCCESS) cuGraphDestroy(graph);
  expect_usable(stream_);
}

TEST_F(Capture, TwoCapturesDoNotMerge) {
  begin();
  ASSERT_OK(cuStreamBeginCapture(other_, CU_STREAM_CAPTURE_MODE_RELAXED));
  ASSERT_OK(cuEventRecord(event_, other_));
  EXPECT_CU(CUDA_ERROR_STREAM_CAPTURE_MERGE, cuStreamWaitEvent(stream_, event_, 0));
  CUgraph graph = nullptr;
  for (CUstream stream : {stream_, other_}) {
    if (cuStreamEndCapture(stream, &graph) == CUDA_SUCCESS) cuGraphDestroy(graph);
    expect_usable(stream);
  }
}

TEST_F(Capture, WorkBeforeItIsStillWaitedFor) {
  const CUdeviceptr p = words(1);
  unsigned value = 3, rotations = 3'000'000;
  void* data = const_cast<CUdeviceptr*>(&p);
  ASSERT_OK(launch("slow_set", {data, &value, &rotations}, 1, 1, stream_));
  ASSERT_OK(cuEventRecord(event_, stream_));
  begin();
  EXPECT_OK(cuEventSynchronize(event_));
  EXPECT_EQ(read_word(p), 3u);
  EXPECT_OK(cuGraphExecDestroy(end()));
}

TEST_F(Capture, MemoryMayComeAndGoInRelaxedMode) {
  const CUdeviceptr p = words(1);
  const CUdeviceptr early = words(1);
  begin();
  EXPECT_OK(cuMemFree(early));
  const CUdeviceptr late = words(1);
  EXPECT_OK(cuMemFree(late));
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  EXPECT_OK(cuMemGetInfo(&free_bytes, &total_bytes));
  set(p, 4, stream_);
  CUgraphExec exec = end();
  EXPECT_OK(cuGraphLaunch(exec, stream_));
  EXPECT_OK(cuStreamSynchronize(stream_));
  EXPECT_EQ(read_word(p), 4u);
  EXPECT_OK(cuGraphExecDestroy(exec));
}

TEST_F(Capture, AnAllocationSpoilsAGlobalCapture) {
  begin(CU_STREAM_CAPTURE_MODE_GLOBAL);
  CUdeviceptr p = 0;
  EXPECT_CU(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuMemAlloc(&p, 4));
  CUgraph graph = nullptr;
  EXPECT_CU(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(stream_, &graph));
}

TEST_F(Capture, OtherThreadsMayAllocateBesideAThreadLocalCapture) {
  begin(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  std::thread([&] {
    EXPECT_OK(cuCtxSetCurrent(context_));
    CUdeviceptr p = 0;
    EXPECT_OK(cuMemAlloc(&p, 4));
    EXPECT_OK(cuMemFree(p));
  }).join();
  EXPECT_OK(cuGraphExecDestroy(end()));
}

TEST_F(Capture, AThreadThatExchangedItsModeMayAllocate) {
  begin(CU_STREAM_CAPTURE_MODE_GLOBAL);
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  EXPECT_OK(cuThreadExchangeStreamCaptureMode(&mode));
  EXPECT_EQ(mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
  CUdeviceptr p = 0;
  EXPECT_OK(cuMemAlloc(&p, 4));
  EXPECT_OK(cuMemFree(p));
  EXPECT_OK(cuThreadExchangeStreamCaptureMode(&mode));
  EXPECT_OK(cuGraphExecDestroy(end()));
}

TEST_F(Capture, HostMemoryIsReadAtTheLaunch) {
  constexpr std::size_t kWords = 200'000;  // several records
  const CUdeviceptr p = words(kWords);
  std::vector<unsigned> source(kWords, 1);
  begin();
  ASSERT_OK(cuMemcpyHtoDAsync(p, source.data(), kWords * 4, stream_));
  CUgraphExec exec = end();
  std::vector<unsigned> got(kWords);
  for (unsigned round = 2; round < 5; ++round) {
    source.assign(kWords, round);
    EXPECT_OK(cuGraphLaunch(exec, stream_));
    EXPECT_OK(cuStreamSynchronize(stream_));
    EXPECT_OK(cuMemcpyDtoH(got.data(), p, kWords * 4));
    EXPECT_EQ(got, source);
  }
  EXPECT_OK(cuGraphExecDestroy(exec));
}

void CUDA_CB double_it(void* data) {
  auto* word = static_cast<unsigned*>(data);
  *word *= 2;
}

TEST_F(Capture, AHostFunctionSeesWhatPrecedesItAndFeedsWhatFollows) {
  const CUdeviceptr p = words(1, 20);
  unsigned* word = pinned(1);
  begin();
  add_one(p, stream_);
  ASSERT_OK(cuMemcpyDtoHAsync(word, p, 4, stream_));
  ASSERT_OK(cuLaunchHostFunc(stream_, &double_it, word));
  ASSERT_OK(cuMemcpyHtoDAsync(p, word, 4, stream_));
  CUgraphExec exec = end();
  unsigned expected = 20;
  for (int round = 0; round < 5; ++round) {
    expected = (expected + 1) * 2;
    EXPECT_OK(cuGraphLaunch(exec, round % 2 == 0 ? stream_ : other_));
    EXPECT_OK(cuCtxSynchronize());
    EXPECT_EQ(*word, expected);
    EXPECT_EQ(read_word(p), expected);
  }
  // Without waiting in between.
  for (int round = 0; round < 4; ++round) {
    expected = (expected + 1) * 2;
    EXPECT_OK(cuGraphLaunch(exec, stream_));
  }
  EXPECT_OK(cuStreamSynchronize(stream_));
  EXPECT_EQ(*word, expected);
  EXPECT_OK(cuGraphExecDestroy(exec));
  EXPECT_OK(cuMemFreeHost(word));
}

TEST_F(Capture, LaunchesInManyStreamsKeepTheirData) {
  const CUdeviceptr p = words(2);
  unsigned* in = pinned(1);
  unsigned* out = pinned(1);
  begin();
  ASSERT_OK(cuMemcpyHtoDAsync(p, in, 4, stream_));
  add_one(p, stream_);
  ASSERT_OK(cuMemcpyDtoHAsync(out, p, 4, stream_));
  CUgraphExec exec = end();
  for (unsigned round = 0; round < 20; ++round) {
    *in = round * 10;
    CUstream stream = round % 2 == 0 ? stream_ : other_;
    EXPECT_OK(cuGraphLaunch(exec, stream));
    EXPECT_OK(cuStreamSynchronize(stream));
    EXPECT_EQ(*out, round * 10 + 1);
  }
  EXPECT_OK(cuGraphExecDestroy(exec));
  EXPECT_OK(cuMemFreeHost(in));
  EXPECT_OK(cuMemFreeHost(out));
}

TEST_F(Capture, ACopyBehindALaunchTakesWhatTheGraphWrote) {
  const CUdeviceptr p = words(2, 6);
  unsigned* word = pinned(1);
  begin();
  ASSERT_OK(cuMemcpyDtoHAsync(word, p, 4, stream_));
  ASSERT_OK(cuLaunchHostFunc(stream_, &double_it, word));
  CUgraphExec exec = end();
  EXPECT_OK(cuGraphLaunch(exec, stream_));
  EXPECT_OK(cuMemcpyHtoDAsync(p + 4, word, 4, stream_));
  EXPECT_OK(cuStreamSynchronize(stream_));
  EXPECT_EQ(read_word(p + 4), 12u);
  EXPECT_OK(cuGraphExecDestroy(exec));
  EXPECT_OK(cuMemFreeHost(word));
}

TEST_F(Capture, ALaunchInACaptureIsPartOfTheGraph) {
  const CUdeviceptr p = words(1, 1);
  unsigned* word = pinned(1);
  begin();
  ASSERT_OK(cuMemcpyHtoDAsync(p, word, 4, stream_));
  add_one(p, stream_);
  CUgraphExec inner = end();
  begin();
  ASSERT_OK(cuGraphLaunch(inner, stream_));
  add_one(p, stream_);
  ASSERT_OK(cuMemcpyDtoHAsync(word, p, 4, stream_));
  CUgraphExec outer = end();
  *word = 40;
  EXPECT_OK(cuGraphLaunch(outer, stream_));
  EXPECT_OK(cuStreamSynchronize(stream_));
  EXPECT_EQ(*word, 42u);
  EXPECT_OK(cuGraphExecDestroy(outer));
  EXPECT_OK(cuGraphExecDestroy(inner));
  EXPECT_OK(cuMemFreeHost(word));
}

TEST_F(Capture, ACapturingStreamCanBeDestroyed) {
  CUstream doomed = nullptr;
  ASSERT_OK(cuStreamCreate(&doomed, CU_STREAM_NON_BLOCKING));
  ASSERT_OK(cuStreamBeginCapture(doomed, CU_STREAM_CAPTURE_MODE_RELAXED));
  set(words(1), 1, doomed);
  cuStreamDestroy(doomed);
  expect_usable(stream_);
}

}  // namespace
