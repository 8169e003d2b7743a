// Giving an executable graph the parameters of another graph of the same shape.
#include "softgpu/api/graph.h"

#include <algorithm>

namespace sluice::softgpu {
namespace {

struct Mismatch {
  CUgraphExecUpdateResult result = CU_GRAPH_EXEC_UPDATE_SUCCESS;
  Node* node = nullptr;
};

CUcontext owner_of(const KernelWork& w) {
  return static_cast<CUcontext>(w.kernel->module->owner);
}

/// What may change is what CUDA lets change: parameters, not kinds of memory nor contexts.
CUgraphExecUpdateResult compare_work(const Work& now, const Work& then) {
  if (now.index() != then.index()) return CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
  if (const auto* a = std::get_if<KernelWork>(&now);
      a != nullptr && owner_of(*a) != owner_of(std::get<KernelWork>(then)))
    return CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE;
  if (const auto* a = std::get_if<CopyWork>(&now)) {
    const auto& b = std::get<CopyWork>(then);
    if (a->params.srcMemoryType != b.params.srcMemoryType ||
        a->params.dstMemoryType != b.params.dstMemoryType)
      return CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
  }
  return CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

/// Nodes are paired in the order in which they were added.
Mismatch compare(const Graph& now, const Graph& then) {
  if (now.nodes().size() != then.nodes().size())
    return {CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, nullptr};
  for (std::size_t i = 0; i < now.nodes().size(); ++i) {
    const Node& a = *now.nodes()[i];
    Node& b = *then.nodes()[i];
    const CUgraphExecUpdateResult result = compare_work(*a.work, *b.work);
    if (result != CU_GRAPH_EXEC_UPDATE_SUCCESS) return {result, &b};
    std::vector<std::size_t> from, to;
    for (const Node* n : a.before) from.push_back(now.index_of(n));
    for (const Node* n : b.before) to.push_back(then.index_of(n));
    std::sort(from.begin(), from.end());
    std::sort(to.begin(), to.end());
    if (from != to) return {CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, &b};
    if (const auto* child = std::get_if<ChildWork>(a.work.get())) {
      const Mismatch inner = compare(*child->graph, *std::get<ChildWork>(*b.work).graph);
      if (inner.result != CU_GRAPH_EXEC_UPDATE_SUCCESS) return inner;
    }
  }
  return {};
}

void take_over(Graph& now, const Graph& then) {
  for (std::size_t i = 0; i < now.nodes().size(); ++i) {
    Node& a = *now.nodes()[i];
    const Node& b = *then.nodes()[i];
    a.origin = b.id;
    if (const auto* child = std::get_if<ChildWork>(a.work.get()))
      take_over(*child->graph, *std::get<ChildWork>(*b.work).graph);
    else
      a.work = b.work;
  }
}

CUresult update(CUgraphExec handle, CUgraph graph_handle, Mismatch* out) {
  SOFTGPU_CHECK(initialised());
  const std::lock_guard lock(graph_mutex());
  const auto executable = state().executables.find(handle);
  std::shared_ptr<Graph> graph;
  if (executable == nullptr) return CUDA_ERROR_INVALID_VALUE;
  SOFTGPU_CHECK(find_graph(graph_handle, &graph));
  *out = compare(*executable->graph, *graph);
  if (out->result != CU_GRAPH_EXEC_UPDATE_SUCCESS) return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
  take_over(*executable->graph, *graph);
  return CUDA_SUCCESS;
}

}  // namespace
}  // namespace sluice::softgpu

using namespace sluice::softgpu;

SOFTGPU_API cuGraphExecUpdate_v2(CUgraphExec executable, CUgraph graph,
                                 CUgraphExecUpdateResultInfo* info) {
  if (info == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Mismatch mismatch;
  const CUresult result = update(executable, graph, &mismatch);
  *info = {};
  info->result = result == CUDA_SUCCESS || result == CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE
                     ? mismatch.result
                     : CU_GRAPH_EXEC_UPDATE_ERROR;
  info->errorNode = handle_of(mismatch.node);
  return result;
}

#undef cuGraphExecUpdate
SOFTGPU_API cuGraphExecUpdate(CUgraphExec executable, CUgraph graph, CUgraphNode* error_node,
                              CUgraphExecUpdateResult* out) {
  if (error_node == nullptr || out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUgraphExecUpdateResultInfo info;
  const CUresult result = cuGraphExecUpdate_v2(executable, graph, &info);
  *error_node = info.errorNode;
  *out = info.result;
  return result;
}

SOFTGPU_API cuGraphExecChildGraphNodeSetParams(CUgraphExec executable, CUgraphNode node,
                                               CUgraph graph_handle) {
  const std::lock_guard lock(graph_mutex());
  Node* copy = nullptr;
  SOFTGPU_CHECK(find_copy(executable, node, &copy));
  std::shared_ptr<Graph> graph;
  SOFTGPU_CHECK(find_graph(graph_handle, &graph));
  const auto* child = std::get_if<ChildWork>(copy->work.get());
  if (child == nullptr || compare(*child->graph, *graph).result != CU_GRAPH_EXEC_UPDATE_SUCCESS)
    return CUDA_ERROR_INVALID_VALUE;
  take_over(*child->graph, *graph);
  return CUDA_SUCCESS;
}
