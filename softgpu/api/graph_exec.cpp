// Executable graphs: instantiating and launching (updating is in graph_update.cpp).
#include "softgpu/api/graph.h"
#include "softgpu/api/submit.h"

#include <algorithm>

namespace sluice::softgpu {
namespace {

OperationPtr make_operation(std::function<CUresult()> work) {
  auto operation = std::make_shared<Operation>();
  operation->work = std::move(work);
  return operation;
}

OperationPtr operation_of(const Node& node, const std::shared_ptr<Context>& context) {
  if (!node.is_enabled) return make_operation([] { return CUDA_SUCCESS; });
  auto operation = make_operation(in_context(
      context, [work = node.work, raw = context.get()] { return run_work(*work, *raw); }));
  operation->device = computes_on(*node.work, *context);
  return operation;
}

}  // namespace

OperationPtr schedule_graph(Graph& graph, const std::shared_ptr<Context>& context,
                            const std::vector<OperationPtr>& before) {
  std::map<const Node*, OperationPtr> done;
  const auto order = graph.order();
  std::vector<OperationPtr> ends = before;
  for (const Node* node : order.value_or(std::vector<Node*>{})) {
    std::vector<OperationPtr> needs;
    for (const Node* b : node->before) needs.push_back(done[b]);
    if (needs.empty()) needs = before;
    OperationPtr operation;
    if (const auto* child = std::get_if<ChildWork>(node->work.get());
        child != nullptr && node->is_enabled) {
      operation = schedule_graph(*child->graph, context, needs);
    } else {
      if (const auto* wait = std::get_if<EventWaitWork>(node->work.get());
          wait != nullptr && node->is_enabled)
        needs.push_back(wait->event->recorded);
      operation = operation_of(*node, context);
      if (const auto* record = std::get_if<EventRecordWork>(node->work.get());
          record != nullptr && node->is_enabled)
        record->event->recorded = operation;
      schedule(operation, needs);
    }
    done[node] = operation;
    ends.push_back(operation);
  }
  auto end = make_operation([] { return CUDA_SUCCESS; });
  schedule(end, ends);
  return end;
}

namespace {

/// Events of nodes must be of the launch's context, whose mutex guards them.
bool are_events_of(const Graph& graph, const Context& context) {
  return std::all_of(graph.nodes().begin(), graph.nodes().end(), [&](const auto& node) {
    if (const auto* w = std::get_if<EventWaitWork>(node->work.get()))
      return w->event->context.get() == &context;
    if (const auto* w = std::get_if<EventRecordWork>(node->work.get()))
      return w->event->context.get() == &context;
    if (const auto* w = std::get_if<ChildWork>(node->work.get()))
      return are_events_of(*w->graph, context);
    return true;
  });
}

bool has_cycle(const Graph& graph) {
  if (!graph.order()) return true;
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), [](const auto& node) {
    const auto* child = std::get_if<ChildWork>(node->work.get());
    return child != nullptr && has_cycle(*child->graph);
  });
}

CUresult instantiate(CUgraphExec* out, CUgraph handle, unsigned long long flags) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  constexpr unsigned long long kKnown = CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH |
                                        CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |
                                        CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
  if ((flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) != 0) return CUDA_ERROR_NOT_SUPPORTED;
  if ((flags & ~kKnown) != 0) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard lock(graph_mutex());
  std::shared_ptr<Graph> graph;
  SOFTGPU_CHECK(find_graph(handle, &graph));
  if (graph->is_capturing || has_cycle(*graph)) return CUDA_ERROR_INVALID_VALUE;
  auto executable = std::make_shared<Executable>();
  executable->graph = graph->clone();
  executable->flags = flags;
  *out = state().executables.add(std::move(executable));
  return CUDA_SUCCESS;
}

CUresult launch(const std::shared_ptr<Executable>& executable,
                const std::shared_ptr<Stream>& stream) {
  if (is_capturing(stream)) return submit_work(stream, ChildWork{executable->graph});
  const std::lock_guard context_lock(stream->context->mutex);
  const std::lock_guard lock(graph_mutex());
  if (!are_events_of(*executable->graph, *stream->context)) return CUDA_ERROR_INVALID_HANDLE;
  std::vector<OperationPtr> before;
  SOFTGPU_CHECK(what_comes_before(stream, &before));
  before.push_back(executable->last);
  stream->last = executable->last = schedule_graph(*executable->graph, stream->context, before);
  return CUDA_SUCCESS;
}

}  // namespace

CUresult find_executable(CUgraphExec handle, std::shared_ptr<Executable>* out) {
  SOFTGPU_CHECK(initialised());
  *out = state().executables.find(handle);
  return *out != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult find_copy(CUgraphExec handle, CUgraphNode node_handle, Node** out) {
  std::shared_ptr<Executable> executable;
  SOFTGPU_CHECK(find_executable(handle, &executable));
  Node* node = nullptr;
  SOFTGPU_CHECK(find_node(node_handle, &node));
  *out = executable->graph->find_by_origin(node->id);
  return *out != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace sluice::softgpu

using namespace sluice::softgpu;

SOFTGPU_API cuGraphInstantiateWithFlags(CUgraphExec* out, CUgraph graph, unsigned long long flags) {
  return instantiate(out, graph, flags);
}

SOFTGPU_API cuGraphInstantiateWithParams(CUgraphExec* out, CUgraph graph,
                                         CUDA_GRAPH_INSTANTIATE_PARAMS* params) {
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  params->hErrNode_out = nullptr;
  {
    const std::lock_guard lock(graph_mutex());
    const auto known = state().graphs.find(graph);
    params->result_out = known != nullptr && has_cycle(*known)
                             ? CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE
                             : CUDA_GRAPH_INSTANTIATE_ERROR;
  }
  SOFTGPU_CHECK(instantiate(out, graph, params->flags));
  params->result_out = CUDA_GRAPH_INSTANTIATE_SUCCESS;
  return CUDA_SUCCESS;
}

// The forms before CUDA 12.
#undef cuGraphInstantiate
SOFTGPU_API cuGraphInstantiate(CUgraphExec* out, CUgraph graph, CUgraphNode* error_node,
                               char* log_text, size_t log_bytes) {
  if (error_node != nullptr) *error_node = nullptr;
  if (log_text != nullptr && log_bytes > 0) *log_text = '\0';
  return instantiate(out, graph, 0);
}
SOFTGPU_API cuGraphInstantiate_v2(CUgraphExec* out, CUgraph graph, CUgraphNode* error_node,
                                  char* log_text, size_t log_bytes) {
  if (error_node != nullptr) *error_node = nullptr;
  if (log_text != nullptr && log_bytes > 0) *log_text = '\0';
  return instantiate(out, graph, 0);
}

SOFTGPU_API cuGraphNodeSetEnabled(CUgraphExec executable, CUgraphNode node,
                                  unsigned int is_enabled) {
  const std::lock_guard lock(graph_mutex());
  Node* copy = nullptr;
  SOFTGPU_CHECK(find_copy(executable, node, &copy));
  // As in CUDA: only nodes of these kinds.
  if (copy->type() != CU_GRAPH_NODE_TYPE_KERNEL && copy->type() != CU_GRAPH_NODE_TYPE_MEMCPY &&
      copy->type() != CU_GRAPH_NODE_TYPE_MEMSET)
    return CUDA_ERROR_INVALID_VALUE;
  copy->is_enabled = is_enabled != 0;
  return CUDA_SUCCESS;
}

SOFTGPU_API cuGraphNodeGetEnabled(CUgraphExec executable, CUgraphNode node,
                                  unsigned int* is_enabled) {
  if (is_enabled == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard lock(graph_mutex());
  Node* copy = nullptr;
  SOFTGPU_CHECK(find_copy(executable, node, &copy));
  *is_enabled = copy->is_enabled ? 1 : 0;
  return CUDA_SUCCESS;
}

SOFTGPU_API cuGraphLaunch(CUgraphExec handle, CUstream stream_handle) {
  std::shared_ptr<Executable> executable;
  SOFTGPU_CHECK(find_executable(handle, &executable));
  std::shared_ptr<Stream> stream;
  SOFTGPU_CHECK(stream_of(stream_handle, &stream));
  return launch(executable, stream);
}

SOFTGPU_API cuGraphUpload(CUgraphExec handle, CUstream stream_handle) {
  std::shared_ptr<Executable> executable;
  SOFTGPU_CHECK(find_executable(handle, &executable));
  std::shared_ptr<Stream> stream;
  return stream_of(stream_handle, &stream);
}

SOFTGPU_API cuGraphExecDestroy(CUgraphExec handle) {
  std::shared_ptr<Executable> executable;
  SOFTGPU_CHECK(find_executable(handle, &executable));
  const std::lock_guard lock(graph_mutex());
  state().executables.remove(handle);
  executable.reset();
  return CUDA_SUCCESS;
}

SOFTGPU_API cuGraphExecGetFlags(CUgraphExec handle, cuuint64_t* flags) {
  std::shared_ptr<Executable> executable;
  SOFTGPU_CHECK(find_executable(handle, &executable));
  if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *flags = executable->flags;
  return CUDA_SUCCESS;
}
