// If these fail, a capture records the wrong edges, or what CUDA forbids during one passes.
#include "tests/cuda/fixture.h"

#include <thread>

namespace sluice::test {
namespace {

class CaptureTest : public KernelTest {
 protected:
  void SetUp() override {
    KernelTest::SetUp();
    a_ = stream(), b_ = stream();
    ASSERT_OK(cuEventCreate(&event_, CU_EVENT_DISABLE_TIMING));
    p_ = words(1);
    ASSERT_OK(cuCtxSynchronize());
  }
  CUstream stream() {
    CUstream s = nullptr;
    EXPECT_OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    return s;
  }
  void begin(CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL) {
    ASSERT_OK(cuStreamBeginCapture(a_, mode));
    ASSERT_OK(cuMemsetD32Async(p_, 1, 1, a_));
  }
  void expect_invalidated() {
    CUgraph graph = reinterpret_cast<CUgraph>(1);
    EXPECT_CU(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(a_, &graph));
    EXPECT_EQ(nullptr, graph);
    EXPECT_OK(cuStreamSynchronize(a_)) << "usable again";
  }
  void expect_valid() {
    CUgraph graph = nullptr;
    EXPECT_OK(cuStreamEndCapture(a_, &graph));
    EXPECT_OK(cuGraphDestroy(graph));
  }

  CUstream a_ = nullptr, b_ = nullptr;
  CUevent event_ = nullptr;
  CUdeviceptr p_ = 0;
};

TEST_F(CaptureTest, NodesHaveTheirKindsAndEdges) {
  unsigned value = 3, n = 1;
  ASSERT_OK(cuStreamBeginCapture(a_, CU_STREAM_CAPTURE_MODE_GLOBAL));
  ASSERT_OK(cuMemsetD32Async(p_, 1, 1, a_));
  ASSERT_OK(cuEventRecord(event_, a_));
  ASSERT_OK(cuStreamWaitEvent(b_, event_, 0));
  ASSERT_OK(launch("add_one", {&p_, &n}, 1, 1, b_));
  ASSERT_OK(cuMemcpyDtoHAsync(&value, p_, 4, a_));
  CUevent join = nullptr;
  ASSERT_OK(cuEventCreate(&join, CU_EVENT_DISABLE_TIMING));
  ASSERT_OK(cuEventRecord(join, b_));
  ASSERT_OK(cuStreamWaitEvent(a_, join, 0));
  ASSERT_OK(cuLaunchHostFunc(
      a_, [](void*) {}, nullptr));
  CUgraph graph = nullptr;
  ASSERT_OK(cuStreamEndCapture(a_, &graph));
  CUgraphNode nodes[4] = {};
  std::size_t count = 4;
  ASSERT_OK(cuGraphGetNodes(graph, nodes, &count));
  ASSERT_EQ(4u, count);
  const CUgraphNodeType want[] = {CU_GRAPH_NODE_TYPE_MEMSET, CU_GRAPH_NODE_TYPE_KERNEL,
                                  CU_GRAPH_NODE_TYPE_MEMCPY, CU_GRAPH_NODE_TYPE_HOST};
  for (unsigned i = 0; i < 4; ++i) {
    CUgraphNodeType type{};
    ASSERT_OK(cuGraphNodeGetType(nodes[i], &type));
    EXPECT_EQ(want[i], type);
  }
  const std::size_t before[] = {0, 1, 1, 2};
  for (unsigned i = 0; i < 4; ++i) {
    ASSERT_OK(cuGraphNodeGetDependencies(nodes[i], nullptr, nullptr, &count));
    EXPECT_EQ(before[i], count) << "node " << i;
  }
  ASSERT_OK(cuGraphDestroy(graph));
}

TEST_F(CaptureTest, TheGraphUnderWayAndItsTailCanBeAskedFor) {
  begin();
  CUstreamCaptureStatus status{};
  cuuint64_t id = 0;
  CUgraph graph = nullptr;
  const CUgraphNode* tail = nullptr;
  std::size_t count = 0;
  ASSERT_OK(cuStreamGetCaptureInfo(a_, &status, &id, &graph, &tail, nullptr, &count));
  EXPECT_EQ(CU_STREAM_CAPTURE_STATUS_ACTIVE, status);
  ASSERT_EQ(1u, count);
  CUgraphNode extra = nullptr;
  ASSERT_OK(cuGraphAddEmptyNode(&extra, graph, tail, 1));
  ASSERT_OK(cuStreamUpdateCaptureDependencies(a_, &extra, nullptr, 1,
                                              CU_STREAM_SET_CAPTURE_DEPENDENCIES));
  ASSERT_OK(cuMemsetD32Async(p_, 2, 1, a_));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuGraphDestroy(graph)) << "it is being captured into";
  CUgraph out = nullptr;
  ASSERT_OK(cuStreamEndCapture(a_, &out));
  EXPECT_EQ(graph, out);
  CUgraphNode last[3] = {}, before = nullptr;
  count = 3;
  ASSERT_OK(cuGraphGetNodes(out, last, &count));
  count = 1;
  ASSERT_OK(cuGraphNodeGetDependencies(last[2], &before, nullptr, &count));
  EXPECT_EQ(extra, before);
  ASSERT_OK(cuGraphDestroy(out));
}

TEST_F(CaptureTest, AGraphOfTheProgramsOwnIsContinued) {
  CUgraph graph = nullptr;
  ASSERT_OK(cuGraphCreate(&graph, 0));
  CUgraphNode first = nullptr;
  ASSERT_OK(cuGraphAddEmptyNode(&first, graph, nullptr, 0));
  ASSERT_OK(
      cuStreamBeginCaptureToGraph(a_, graph, &first, nullptr, 1, CU_STREAM_CAPTURE_MODE_RELAXED));
  ASSERT_OK(cuMemsetD32Async(p_, 2, 1, a_));
  CUgraph out = nullptr;
  ASSERT_OK(cuStreamEndCapture(a_, &out));
  EXPECT_EQ(graph, out);
  std::size_t count = 0;
  ASSERT_OK(cuGraphGetEdges(graph, nullptr, nullptr, nullptr, &count));
  EXPECT_EQ(1u, count);
  ASSERT_OK(cuGraphDestroy(graph));
}

TEST_F(CaptureTest, AnotherThreadMayNotEndItUnlessRelaxed) {
  begin(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  CUgraph graph = nullptr;
  std::thread([&] {
    ASSERT_OK(cuCtxSetCurrent(context_));
    EXPECT_CU(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, cuStreamEndCapture(a_, &graph));
  }).join();
  expect_valid();
  begin(CU_STREAM_CAPTURE_MODE_RELAXED);
  std::thread([&] {
    ASSERT_OK(cuCtxSetCurrent(context_));
    EXPECT_OK(cuStreamEndCapture(a_, &graph));
  }).join();
  EXPECT_OK(cuGraphDestroy(graph));
}

TEST_F(CaptureTest, UnsafeCallsSpoilAGlobalCapture) {
  CUdeviceptr q = 0;
  begin();
  EXPECT_CU(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuMemAlloc(&q, 16));
  expect_invalidated();
  begin();
  EXPECT_CU(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuCtxSynchronize());
  expect_invalidated();
  begin();
  EXPECT_CU(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuEventQuery(event_));
  expect_invalidated();
}

TEST_F(CaptureTest, WhoseCallsAreUnsafeDependsOnTheModes) {
  const auto allocate = [&] {
    CUdeviceptr q = 0;
    CUresult result = CUDA_ERROR_UNKNOWN;
    std::thread([&] {
      EXPECT_OK(cuCtxSetCurrent(context_));
      result = cuMemAlloc(&q, 16);
    }).join();
    return result;
  };
  begin();
  EXPECT_CU(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, allocate()) << "global: every thread";
  expect_invalidated();
  begin(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  EXPECT_OK(allocate()) << "another thread's";
  expect_valid();
  CUdeviceptr q = 0;
  begin(CU_STREAM_CAPTURE_MODE_RELAXED);
  EXPECT_OK(cuMemAlloc(&q, 16));
  expect_valid();
  begin();
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  ASSERT_OK(cuThreadExchangeStreamCaptureMode(&mode));
  EXPECT_EQ(CU_STREAM_CAPTURE_MODE_GLOBAL, mode);
  EXPECT_OK(cuMemAlloc(&q, 16)) << "the thread has asked for it";
  ASSERT_OK(cuThreadExchangeStreamCaptureMode(&mode));
  expect_valid();
}

TEST_F(CaptureTest, WaitingForWorkOutsideBreaksIsolation) {
  ASSERT_OK(cuEventRecord(event_, b_));
  begin();
  EXPECT_CU(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, cuStreamWaitEvent(a_, event_, 0));
  expect_invalidated();
}

TEST_F(CaptureTest, TwoCapturesDoNotMerge) {
  begin();
  ASSERT_OK(cuEventRecord(event_, a_));
  ASSERT_OK(cuStreamBeginCapture(b_, CU_STREAM_CAPTURE_MODE_GLOBAL));
  EXPECT_CU(CUDA_ERROR_STREAM_CAPTURE_MERGE, cuStreamWaitEvent(b_, event_, 0));
  CUgraph graph = nullptr;
  EXPECT_CU(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(b_, &graph));
  expect_invalidated();
}

TEST_F(CaptureTest, AForkThatIsDestroyedUnjoinedIsUnjoined) {
  begin();
  ASSERT_OK(cuEventRecord(event_, a_));
  ASSERT_OK(cuStreamWaitEvent(b_, event_, 0));
  ASSERT_OK(cuMemsetD32Async(p_, 5, 1, b_));
  ASSERT_OK(cuStreamDestroy(b_));
  CUgraph graph = nullptr;
  EXPECT_CU(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, cuStreamEndCapture(a_, &graph));
  EXPECT_EQ(nullptr, graph);
}

TEST_F(CaptureTest, AContextThatIsDestroyedEndsItsCaptures) {
  CUcontext doomed = nullptr;
  ASSERT_OK(cuCtxCreate(&doomed, nullptr, 0, device_));
  const CUstream s = stream();
  ASSERT_OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
  ASSERT_OK(cuCtxDestroy(doomed));
  ASSERT_OK(cuCtxSetCurrent(context_));
  CUdeviceptr q = 0;
  EXPECT_OK(cuMemAlloc(&q, 16)) << "nothing captures any more";
}

TEST_F(CaptureTest, AGraphLaunchInsideBecomesAChild) {
  begin();
  CUgraph inner = nullptr;
  ASSERT_OK(cuStreamEndCapture(a_, &inner));
  CUgraphExec executable = nullptr;
  ASSERT_OK(cuGraphInstantiate(&executable, inner, 0));
  ASSERT_OK(cuStreamBeginCapture(a_, CU_STREAM_CAPTURE_MODE_GLOBAL));
  ASSERT_OK(cuGraphLaunch(executable, a_));
  CUgraph outer = nullptr;
  ASSERT_OK(cuStreamEndCapture(a_, &outer));
  CUgraphNode node = nullptr;
  std::size_t count = 1;
  ASSERT_OK(cuGraphGetNodes(outer, &node, &count));
  CUgraphNodeType type{};
  ASSERT_OK(cuGraphNodeGetType(node, &type));
  EXPECT_EQ(CU_GRAPH_NODE_TYPE_GRAPH, type);
  ASSERT_OK(cuGraphExecDestroy(executable));
  ASSERT_OK(cuGraphInstantiate(&executable, outer, 0));
  ASSERT_OK(cuGraphLaunch(executable, a_));
  ASSERT_OK(cuStreamSynchronize(a_));
  EXPECT_EQ(1u, read_word(p_));
  ASSERT_OK(cuGraphExecDestroy(executable));
  ASSERT_OK(cuGraphDestroy(inner));
  ASSERT_OK(cuGraphDestroy(outer));
}

TEST_F(CaptureTest, ExternalEventsBecomeNodes) {
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuEventRecordWithFlags(event_, a_, CU_EVENT_RECORD_EXTERNAL));
  begin();
  ASSERT_OK(cuEventRecordWithFlags(event_, a_, CU_EVENT_RECORD_EXTERNAL));
  CUgraph graph = nullptr;
  ASSERT_OK(cuStreamEndCapture(a_, &graph));
  CUgraphExec executable = nullptr;
  ASSERT_OK(cuGraphInstantiate(&executable, graph, 0));
  ASSERT_OK(cuGraphLaunch(executable, a_));
  ASSERT_OK(cuEventSynchronize(event_));
  EXPECT_EQ(1u, read_word(p_));
  ASSERT_OK(cuGraphExecDestroy(executable));
  ASSERT_OK(cuGraphDestroy(graph));
}

}  // namespace
}  // namespace sluice::test
