// If these fail, work of different streams waits for each other where it must not, or captured work
// is replayed wrongly.
#include "tests/cuda/fixture.h"

#include <future>

namespace sluice::test {
namespace {

using namespace std::chrono_literals;

class OrderTest : public KernelTest {
 protected:
  CUstream stream() {
    CUstream s = nullptr;
    EXPECT_OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    return s;
  }
  static void CUDA_CB open(void* gate) { static_cast<std::promise<void>*>(gate)->set_value(); }
  /// Gives up after a while: a failing test must end.
  static void CUDA_CB wait(void* gate) { static_cast<std::future<void>*>(gate)->wait_for(20s); }
};

TEST_F(OrderTest, AHostFunctionMayWaitForAnotherStream) {
  // One event releases two streams at once; the first one's function waits for the second's.
  std::promise<void> start, done;
  std::future<void> started = start.get_future(), finished = done.get_future();
  CUstream source = stream(), waiter = stream(), opener = stream();
  CUevent event = nullptr;
  ASSERT_OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  ASSERT_OK(cuLaunchHostFunc(source, wait, &started));
  ASSERT_OK(cuEventRecord(event, source));
  ASSERT_OK(cuStreamWaitEvent(waiter, event, 0));
  ASSERT_OK(cuStreamWaitEvent(opener, event, 0));
  ASSERT_OK(cuLaunchHostFunc(waiter, wait, &finished));
  ASSERT_OK(cuLaunchHostFunc(opener, open, &done));
  start.set_value();
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_OK(cuStreamSynchronize(waiter));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 15s) << "the function gave up waiting";
}

TEST_F(OrderTest, ABlockedStreamHoldsBackNobodyElse) {
  std::promise<void> gate;
  std::future<void> opened = gate.get_future();
  CUstream blocked = stream(), other = stream();
  CUdeviceptr p = words(1);
  unsigned value = 9;
  ASSERT_OK(cuCtxSynchronize());
  ASSERT_OK(cuLaunchHostFunc(blocked, wait, &opened));
  ASSERT_OK(launch("set_value", {&p, &value}, 1, 1, other));
  ASSERT_OK(cuStreamSynchronize(other));
  EXPECT_CU(CUDA_ERROR_NOT_READY, cuStreamQuery(blocked));
  gate.set_value();
  ASSERT_OK(cuStreamSynchronize(blocked));
  EXPECT_EQ(9u, read_word(p));
}

TEST_F(OrderTest, AReplayReadsItsSourceAsItIsThen) {
  CUstream s = stream();
  CUdeviceptr p = words(1);
  ASSERT_OK(cuCtxSynchronize());
  unsigned source = 1;  // pageable, and small enough to be staged outside a capture
  CUgraph graph = nullptr;
  CUgraphExec executable = nullptr;
  ASSERT_OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
  ASSERT_OK(cuMemcpyHtoDAsync(p, &source, 4, s));
  ASSERT_OK(cuStreamEndCapture(s, &graph));
  ASSERT_OK(cuGraphInstantiate(&executable, graph, 0));
  for (source = 10; source < 13; ++source) {
    ASSERT_OK(cuGraphLaunch(executable, s));
    ASSERT_OK(cuStreamSynchronize(s));
    EXPECT_EQ(source, read_word(p));
  }
  EXPECT_OK(cuGraphExecDestroy(executable));
  EXPECT_OK(cuGraphDestroy(graph));
}

TEST_F(OrderTest, AForkThatIsJoinedIsPartOfTheGraph) {
  CUstream a = stream(), b = stream();
  CUevent fork = nullptr, join = nullptr;
  ASSERT_OK(cuEventCreate(&fork, CU_EVENT_DISABLE_TIMING));
  ASSERT_OK(cuEventCreate(&join, CU_EVENT_DISABLE_TIMING));
  CUdeviceptr p = words(1), q = words(1);
  unsigned n = 1;
  ASSERT_OK(cuCtxSynchronize());
  CUgraph graph = nullptr;
  ASSERT_OK(cuStreamBeginCapture(a, CU_STREAM_CAPTURE_MODE_RELAXED));
  ASSERT_OK(launch("add_one", {&p, &n}, 1, 1, a));
  ASSERT_OK(cuEventRecord(fork, a));
  ASSERT_OK(cuStreamWaitEvent(b, fork, 0));
  ASSERT_OK(launch("add_one", {&q, &n}, 1, 1, b));
  ASSERT_OK(cuEventRecord(join, b));
  EXPECT_CU(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, cuStreamEndCapture(b, &graph));
  ASSERT_OK(cuStreamWaitEvent(a, join, 0));
  ASSERT_OK(cuStreamEndCapture(a, &graph));
  std::size_t nodes = 0;
  ASSERT_OK(cuGraphGetNodes(graph, nullptr, &nodes));
  EXPECT_EQ(2u, nodes);
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
  ASSERT_OK(cuStreamIsCapturing(b, &status));
  EXPECT_EQ(CU_STREAM_CAPTURE_STATUS_NONE, status) << "the forked stream is still capturing";
  CUgraphExec executable = nullptr;
  ASSERT_OK(cuGraphInstantiate(&executable, graph, 0));
  ASSERT_OK(cuGraphLaunch(executable, a));
  ASSERT_OK(cuGraphLaunch(executable, b));
  ASSERT_OK(cuCtxSynchronize());
  EXPECT_EQ(2u, read_word(p));
  EXPECT_EQ(2u, read_word(q));
  EXPECT_CU(CUDA_ERROR_CAPTURED_EVENT, cuStreamWaitEvent(a, fork, 0)) << "that capture is over";
}

}  // namespace
}  // namespace sluice::test
