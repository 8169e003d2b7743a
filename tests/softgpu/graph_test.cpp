// If these fail, graphs run their nodes in the wrong order, with the wrong parameters, or one after
// the other where they may run together.
#include "tests/cuda/fixture.h"

#include <algorithm>
#include <future>

namespace sluice::test {
namespace {

using namespace std::chrono_literals;

class GraphTest : public KernelTest {
 protected:
  void SetUp() override {
    KernelTest::SetUp();
    ASSERT_OK(cuGraphCreate(&graph_, 0));
    ASSERT_OK(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING));
    p_ = words(4);
    ASSERT_OK(cuCtxSynchronize());
  }
  void TearDown() override {
    if (executable_ != nullptr) {
      EXPECT_OK(cuGraphExecDestroy(executable_));
    }
    cuGraphDestroy(graph_);
    KernelTest::TearDown();
  }

  CUgraphNode kernel(const char* name, std::vector<void*> params,
                     const std::vector<CUgraphNode>& before = {}) {
    CUDA_KERNEL_NODE_PARAMS k = kernel_params(name, params);
    CUgraphNode node = nullptr;
    EXPECT_OK(cuGraphAddKernelNode(&node, graph_, before.data(), before.size(), &k));
    return node;
  }
  CUDA_KERNEL_NODE_PARAMS kernel_params(const char* name, std::vector<void*>& params) {
    CUDA_KERNEL_NODE_PARAMS k{};
    k.func = function(name);
    k.gridDimX = k.gridDimY = k.gridDimZ = k.blockDimX = k.blockDimY = k.blockDimZ = 1;
    k.kernelParams = params.data();
    return k;
  }
  CUgraphNode host(CUhostFn f, void* data, const std::vector<CUgraphNode>& before = {}) {
    const CUDA_HOST_NODE_PARAMS params{f, data};
    CUgraphNode node = nullptr;
    EXPECT_OK(cuGraphAddHostNode(&node, graph_, before.data(), before.size(), &params));
    return node;
  }
  CUgraphNode fill(CUdeviceptr at, unsigned value, const std::vector<CUgraphNode>& before = {}) {
    const CUDA_MEMSET_NODE_PARAMS params{at, 0, value, 4, 1, 1};
    CUgraphNode node = nullptr;
    EXPECT_OK(cuGraphAddMemsetNode(&node, graph_, before.data(), before.size(), &params, context_));
    return node;
  }
  static CUDA_MEMCPY3D to_host(void* to, CUdeviceptr from, std::size_t bytes) {
    CUDA_MEMCPY3D c{};
    c.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    c.srcDevice = from;
    c.dstMemoryType = CU_MEMORYTYPE_HOST;
    c.dstHost = to;
    c.WidthInBytes = bytes;
    c.Height = c.Depth = 1;
    return c;
  }
  void instantiate() { ASSERT_OK(cuGraphInstantiate(&executable_, graph_, 0)); }
  void run() {
    ASSERT_OK(cuGraphLaunch(executable_, stream_));
    ASSERT_OK(cuStreamSynchronize(stream_));
  }
  unsigned word(unsigned i) { return read_word(p_ + i * 4); }

  CUgraph graph_ = nullptr;
  CUgraphExec executable_ = nullptr;
  CUstream stream_ = nullptr;
  CUdeviceptr p_ = 0;
  unsigned one_ = 1;
};

TEST_F(GraphTest, NodesRunBehindTheirDependencies) {
  unsigned result = 0;
  static unsigned* seen = nullptr;
  static unsigned at_host = 0;
  seen = &result;
  const CUgraphNode a = fill(p_, 40);
  const CUgraphNode b = kernel("add_one", {&p_, &one_}, {a});
  const CUgraphNode c = kernel("add_one", {&p_, &one_}, {b});
  const CUDA_MEMCPY3D copy = to_host(&result, p_, 4);
  CUgraphNode d = nullptr;
  ASSERT_OK(cuGraphAddMemcpyNode(&d, graph_, &c, 1, &copy, context_));
  host([](void*) { at_host = *seen; }, nullptr, {d});
  instantiate();
  run();
  EXPECT_EQ(42u, at_host);
}

TEST_F(GraphTest, IndependentBranchesRunTogether) {
  struct Pair {
    std::promise<void> here, there;
    bool is_met[2] = {};
  } pair;
  const CUgraphNode root = fill(p_, 1);
  // Each waits for the other: one after the other, both would give up.
  host(
      [](void* data) {
        auto* p = static_cast<Pair*>(data);
        p->here.set_value();
        p->is_met[0] = p->there.get_future().wait_for(20s) == std::future_status::ready;
      },
      &pair, {root});
  host(
      [](void* data) {
        auto* p = static_cast<Pair*>(data);
        p->there.set_value();
        p->is_met[1] = p->here.get_future().wait_for(20s) == std::future_status::ready;
      },
      &pair, {root});
  instantiate();
  run();
  EXPECT_TRUE(pair.is_met[0]);
  EXPECT_TRUE(pair.is_met[1]);
}

TEST_F(GraphTest, LaunchesOfOneExecutableDoNotOverlap) {
  std::promise<void> gate;
  std::future<void> opened = gate.get_future();
  const CUgraphNode wait =
      host([](void* f) { static_cast<std::future<void>*>(f)->wait_for(20s); }, &opened);
  kernel("add_one", {&p_, &one_}, {wait});
  instantiate();
  CUstream other = nullptr;
  ASSERT_OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
  ASSERT_OK(cuGraphLaunch(executable_, stream_));
  ASSERT_OK(cuGraphLaunch(executable_, other));
  EXPECT_CU(CUDA_ERROR_NOT_READY, cuStreamQuery(other));
  gate.set_value();
  ASSERT_OK(cuStreamSynchronize(other));
  EXPECT_EQ(2u, word(0));
}

TEST_F(GraphTest, WhatFollowsInTheStreamWaitsForEveryNode) {
  for (unsigned i = 0; i < 4; ++i) fill(p_ + i * 4, i + 10);
  instantiate();
  ASSERT_OK(cuGraphLaunch(executable_, stream_));
  unsigned got[4] = {};
  ASSERT_OK(cuMemcpyDtoHAsync(got, p_, sizeof got, stream_));
  ASSERT_OK(cuStreamSynchronize(stream_));
  for (unsigned i = 0; i < 4; ++i) EXPECT_EQ(i + 10, got[i]);
}

TEST_F(GraphTest, EdgesAndNodesAreListed) {
  const CUgraphNode a = fill(p_, 1), b = fill(p_, 2, {a}), c = fill(p_, 3, {a, b});
  std::size_t n = 0;
  ASSERT_OK(cuGraphGetNodes(graph_, nullptr, &n));
  EXPECT_EQ(3u, n);
  CUgraphNode nodes[5] = {};
  n = 5;
  ASSERT_OK(cuGraphGetNodes(graph_, nodes, &n));
  EXPECT_EQ(3u, n);
  EXPECT_EQ(c, nodes[2]);
  EXPECT_EQ(nullptr, nodes[4]);
  n = 1;
  ASSERT_OK(cuGraphGetRootNodes(graph_, nodes, &n));
  EXPECT_EQ(a, nodes[0]);
  ASSERT_OK(cuGraphGetEdges(graph_, nullptr, nullptr, nullptr, &n));
  EXPECT_EQ(3u, n);
  CUgraphNode from[3] = {}, to[3] = {};
  ASSERT_OK(cuGraphGetEdges(graph_, from, to, nullptr, &n));
  EXPECT_EQ(c, to[2]);
  EXPECT_EQ(b, from[2]);
  n = 2;
  ASSERT_OK(cuGraphNodeGetDependencies(c, nodes, nullptr, &n));
  EXPECT_EQ(2u, n);
  ASSERT_OK(cuGraphNodeGetDependentNodes(a, nullptr, nullptr, &n));
  EXPECT_EQ(2u, n);
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuGraphAddDependencies(graph_, &a, &b, nullptr, 1))
      << "exists";
  ASSERT_OK(cuGraphRemoveDependencies(graph_, &a, &c, nullptr, 1));
  ASSERT_OK(cuGraphNodeGetDependentNodes(a, nullptr, nullptr, &n));
  EXPECT_EQ(1u, n);
  ASSERT_OK(cuGraphDestroyNode(b));
  ASSERT_OK(cuGraphGetEdges(graph_, nullptr, nullptr, nullptr, &n));
  EXPECT_EQ(0u, n);
  CUgraphNodeType type{};
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuGraphNodeGetType(b, &type)) << "destroyed";
}

TEST_F(GraphTest, ACycleIsNotInstantiated) {
  const CUgraphNode a = fill(p_, 1), b = fill(p_, 2, {a});
  ASSERT_OK(cuGraphAddDependencies(graph_, &b, &a, nullptr, 1));
  CUDA_GRAPH_INSTANTIATE_PARAMS params{};
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuGraphInstantiateWithParams(&executable_, graph_, &params));
  EXPECT_EQ(CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE, params.result_out);
}

TEST_F(GraphTest, ParametersCanBeReadAndChanged) {
  unsigned value = 7;
  const CUgraphNode set = kernel("set_value", {&p_, &value});
  CUDA_KERNEL_NODE_PARAMS got{};
  ASSERT_OK(cuGraphKernelNodeGetParams(set, &got));
  EXPECT_EQ(function("set_value"), got.func);
  EXPECT_EQ(7u, *static_cast<unsigned*>(got.kernelParams[1]));
  value = 8;
  EXPECT_EQ(7u, *static_cast<unsigned*>(got.kernelParams[1])) << "copied at the call";
  instantiate();
  std::vector<void*> params = {&p_, &value};
  CUDA_KERNEL_NODE_PARAMS changed = kernel_params("set_value", params);
  ASSERT_OK(cuGraphExecKernelNodeSetParams(executable_, set, &changed));
  run();
  EXPECT_EQ(8u, word(0));
  ASSERT_OK(cuGraphKernelNodeGetParams(set, &got));
  EXPECT_EQ(7u, *static_cast<unsigned*>(got.kernelParams[1])) << "the graph is as it was";
  CUDA_HOST_NODE_PARAMS host_params{};
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuGraphHostNodeGetParams(set, &host_params))
      << "not of that kind";
}

TEST_F(GraphTest, AnExecutableLivesOnWithoutItsGraph) {
  fill(p_, 5);
  instantiate();
  ASSERT_OK(cuGraphDestroy(graph_));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuGraphDestroy(graph_));
  run();
  EXPECT_EQ(5u, word(0));
}

TEST_F(GraphTest, AnUpdateTakesParametersAndRefusesAnotherShape) {
  fill(p_, 5);
  instantiate();
  CUgraph other = nullptr;
  ASSERT_OK(cuGraphClone(&other, graph_));
  CUgraphNode node = nullptr;
  std::size_t n = 1;
  ASSERT_OK(cuGraphGetNodes(other, &node, &n));
  const CUDA_MEMSET_NODE_PARAMS params{p_, 0, 6, 4, 1, 1};
  ASSERT_OK(cuGraphMemsetNodeSetParams(node, &params));
  CUgraphExecUpdateResultInfo info{};
  ASSERT_OK(cuGraphExecUpdate(executable_, other, &info));
  EXPECT_EQ(CU_GRAPH_EXEC_UPDATE_SUCCESS, info.result);
  run();
  EXPECT_EQ(6u, word(0));
  CUgraphNode more = nullptr;
  ASSERT_OK(cuGraphAddEmptyNode(&more, other, &node, 1));
  EXPECT_CU(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, cuGraphExecUpdate(executable_, other, &info));
  EXPECT_EQ(CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, info.result);
  run();
  EXPECT_EQ(6u, word(0)) << "a refused update changes nothing";
  ASSERT_OK(cuGraphDestroy(other));
}

TEST_F(GraphTest, AnUpdateRefusesAnotherKindOfNode) {
  fill(p_, 5);
  instantiate();
  CUgraph other = nullptr;
  CUgraphNode node = nullptr;
  ASSERT_OK(cuGraphCreate(&other, 0));
  ASSERT_OK(cuGraphAddEmptyNode(&node, other, nullptr, 0));
  CUgraphExecUpdateResultInfo info{};
  EXPECT_CU(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, cuGraphExecUpdate(executable_, other, &info));
  EXPECT_EQ(CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED, info.result);
  EXPECT_EQ(node, info.errorNode);
  ASSERT_OK(cuGraphDestroy(other));
}

TEST_F(GraphTest, ACloneKnowsItsOriginals) {
  const CUgraphNode a = fill(p_, 1), b = fill(p_, 2, {a});
  CUgraph clone = nullptr;
  ASSERT_OK(cuGraphClone(&clone, graph_));
  CUgraphNode a2 = nullptr, b2 = nullptr, before = nullptr;
  ASSERT_OK(cuGraphNodeFindInClone(&a2, a, clone));
  ASSERT_OK(cuGraphNodeFindInClone(&b2, b, clone));
  EXPECT_NE(a, a2);
  std::size_t n = 1;
  ASSERT_OK(cuGraphNodeGetDependencies(b2, &before, nullptr, &n));
  EXPECT_EQ(a2, before);
  ASSERT_OK(cuGraphDestroy(clone));
}

TEST_F(GraphTest, AChildGraphRunsAsANode) {
  CUgraph child = nullptr;
  ASSERT_OK(cuGraphClone(&child, graph_));
  std::swap(child, graph_);
  const CUgraphNode inner = kernel("add_one", {&p_, &one_});
  kernel("add_one", {&p_, &one_}, {inner});
  std::swap(child, graph_);
  const CUgraphNode first = fill(p_, 10);
  CUgraphNode node = nullptr;
  ASSERT_OK(cuGraphAddChildGraphNode(&node, graph_, &first, 1, child));
  unsigned value = 0;
  const CUDA_MEMCPY3D copy = to_host(&value, p_, 4);
  CUgraphNode last = nullptr;
  ASSERT_OK(cuGraphAddMemcpyNode(&last, graph_, &node, 1, &copy, context_));
  ASSERT_OK(cuGraphDestroy(child)) << "the node has its own copy";
  CUgraph embedded = nullptr;
  ASSERT_OK(cuGraphChildGraphNodeGetGraph(node, &embedded));
  std::size_t n = 0;
  ASSERT_OK(cuGraphGetNodes(embedded, nullptr, &n));
  EXPECT_EQ(2u, n);
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuGraphDestroy(embedded)) << "the node owns it";
  instantiate();
  run();
  EXPECT_EQ(12u, value);
  ASSERT_OK(cuGraphDestroy(graph_));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuGraphGetNodes(embedded, nullptr, &n));
}

TEST_F(GraphTest, EventNodesOrderAgainstStreams) {
  CUevent start = nullptr, done = nullptr;
  ASSERT_OK(cuEventCreate(&start, CU_EVENT_DISABLE_TIMING));
  ASSERT_OK(cuEventCreate(&done, CU_EVENT_DISABLE_TIMING));
  CUgraphNode wait = nullptr, record = nullptr;
  ASSERT_OK(cuGraphAddEventWaitNode(&wait, graph_, nullptr, 0, start));
  const CUgraphNode add = kernel("add_one", {&p_, &one_}, {wait});
  ASSERT_OK(cuGraphAddEventRecordNode(&record, graph_, &add, 1, done));
  instantiate();
  std::promise<void> gate;
  std::future<void> opened = gate.get_future();
  CUstream other = nullptr;
  ASSERT_OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
  ASSERT_OK(cuLaunchHostFunc(
      other, [](void* f) { static_cast<std::future<void>*>(f)->wait_for(20s); }, &opened));
  ASSERT_OK(cuEventRecord(start, other));
  ASSERT_OK(cuGraphLaunch(executable_, stream_));
  EXPECT_CU(CUDA_ERROR_NOT_READY, cuEventQuery(done));
  gate.set_value();
  ASSERT_OK(cuEventSynchronize(done));
  EXPECT_EQ(1u, word(0));
}

TEST_F(GraphTest, ADisabledNodeDoesNothing) {
  const CUgraphNode a = fill(p_, 5);
  instantiate();
  ASSERT_OK(cuGraphNodeSetEnabled(executable_, a, 0));
  unsigned is_enabled = 1;
  ASSERT_OK(cuGraphNodeGetEnabled(executable_, a, &is_enabled));
  EXPECT_EQ(0u, is_enabled);
  run();
  EXPECT_EQ(0u, word(0));
  ASSERT_OK(cuGraphNodeSetEnabled(executable_, a, 1));
  run();
  EXPECT_EQ(5u, word(0));
}

TEST_F(GraphTest, AFaultInANodeStopsTheGraphAndIsSticky) {
  CUdeviceptr nowhere = 0x20;
  const CUgraphNode bad = kernel("wild_store", {&nowhere});
  static bool has_run;
  has_run = false;
  host([](void*) { has_run = true; }, nullptr, {bad});
  instantiate();
  ASSERT_OK(cuGraphLaunch(executable_, stream_));
  EXPECT_CU(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamSynchronize(stream_));
  EXPECT_FALSE(has_run);
}

TEST_F(GraphTest, ArgumentsAreChecked) {
  CUgraph other = nullptr;
  CUgraphNode node = nullptr;
  ASSERT_OK(cuGraphCreate(&other, 0));
  const CUgraphNode a = fill(p_, 1);
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuGraphAddEmptyNode(&node, other, &a, 1))
      << "a node of another graph";
  const CUgraphNode twice[] = {a, a};
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuGraphAddEmptyNode(&node, graph_, twice, 2));
  const CUDA_MEMSET_NODE_PARAMS wild{p_, 0, 1, 4, 1 << 20, 1};
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE,
            cuGraphAddMemsetNode(&node, graph_, nullptr, 0, &wild, context_));
  std::vector<void*> params = {&p_, &one_};
  CUDA_KERNEL_NODE_PARAMS k = kernel_params("add_one", params);
  k.blockDimX = 2000;
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuGraphAddKernelNode(&node, graph_, nullptr, 0, &k));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuGraphCreate(&other, 1));
  ASSERT_OK(cuGraphDestroy(other));
}

}  // namespace
}  // namespace sluice::test
