// Nodes of graphs: adding them, and reading and changing what they do, in a graph and in an
// executable graph.
#include "softgpu/api/graph_node.h"

#include "common/log.h"

#include <algorithm>
#include <cstring>

namespace sluice::softgpu {

CUresult add_node(CUgraphNode* out, CUgraph handle, const CUgraphNode* before, std::size_t count,
                  Work work) {
  if (out == nullptr || (count > 0 && before == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Graph> graph;
  SOFTGPU_CHECK(find_graph(handle, &graph));
  std::vector<Node*> nodes(count);
  for (std::size_t i = 0; i < count; ++i) {
    SOFTGPU_CHECK(find_node(before[i], &nodes[i]));
    if (nodes[i]->graph != graph.get() ||
        std::find(nodes.begin(), nodes.begin() + static_cast<std::ptrdiff_t>(i), nodes[i]) !=
            nodes.begin() + static_cast<std::ptrdiff_t>(i))
      return CUDA_ERROR_INVALID_VALUE;
  }
  *out = handle_of(graph->add(std::move(work), std::move(nodes)));
  return CUDA_SUCCESS;
}

CUresult find_target(CUgraphExec executable, CUgraphNode handle, CUgraphNodeType type,
                     Target* out) {
  SOFTGPU_CHECK(find_node(handle, &out->node));
  if (executable != nullptr) {
    const auto found = state().executables.find(executable);
    if (found == nullptr) return CUDA_ERROR_INVALID_VALUE;
    out->node = found->graph->find_by_origin(out->node->id);
    if (out->node == nullptr) return CUDA_ERROR_INVALID_VALUE;
  }
  return out->node->type() == type ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace sluice::softgpu

using namespace sluice::softgpu;

namespace {

CUresult make_host(const CUDA_HOST_NODE_PARAMS* p, HostWork* out) {
  if (p == nullptr || p->fn == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = {p->fn, p->userData};
  return initialised();
}

template <class W>
CUresult make_event(CUevent handle, W* out) {
  SOFTGPU_CHECK(initialised());
  out->event = state().events.find(handle);
  return out->event != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult make_child(CUgraph handle, ChildWork* out) {
  return find_graph(handle, &out->graph);
}

CUDA_MEMSET_NODE_PARAMS_v1 narrowed(const CUDA_MEMSET_NODE_PARAMS_v2& p) {
  return {p.dst, p.pitch, p.value, p.elementSize, p.width, p.height};
}

/// The work that the general form describes.
CUresult make_work(const CUgraphNodeParams* p, Work* out) {
  if (p == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto fill = [&](auto work, const auto& make) {
    SOFTGPU_CHECK(make(&work));
    *out = std::move(work);
    return CUDA_SUCCESS;
  };
  switch (static_cast<int>(p->type)) {
    case CU_GRAPH_NODE_TYPE_KERNEL: {
      const auto& k = p->kernel;
      const CUDA_KERNEL_NODE_PARAMS_v2 params{
          k.func,      k.gridDimX,       k.gridDimY,     k.gridDimZ, k.blockDimX, k.blockDimY,
          k.blockDimZ, k.sharedMemBytes, k.kernelParams, k.extra,    k.kern,      k.ctx};
      return fill(KernelWork{}, [&](KernelWork* w) { return make_kernel_node_work(&params, w); });
    }
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      return fill(CopyWork{},
                  [&](CopyWork* w) { return make_copy_work(&p->memcpy.copyParams, w); });
    case CU_GRAPH_NODE_TYPE_MEMSET: {
      const auto params = narrowed(p->memset);
      return fill(FillWork{}, [&](FillWork* w) { return make_fill_work(&params, w); });
    }
    case CU_GRAPH_NODE_TYPE_HOST: {
      const CUDA_HOST_NODE_PARAMS params{p->host.fn, p->host.userData};
      return fill(HostWork{}, [&](HostWork* w) { return make_host(&params, w); });
    }
    case CU_GRAPH_NODE_TYPE_GRAPH:
      return fill(ChildWork{}, [&](ChildWork* w) { return make_child(p->graph.graph, w); });
    case CU_GRAPH_NODE_TYPE_EMPTY:
      *out = EmptyWork{};
      return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      return fill(EventWaitWork{},
                  [&](EventWaitWork* w) { return make_event(p->eventWait.event, w); });
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      return fill(EventRecordWork{},
                  [&](EventRecordWork* w) { return make_event(p->eventRecord.event, w); });
    default:
      SLUICE_LOG_WARN("softgpu", "graph nodes of type {} are not supported",
                      static_cast<int>(p->type));
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}

CUresult change_any(CUgraphExec executable, CUgraphNode handle, const CUgraphNodeParams* params) {
  Work work = EmptyWork{};
  SOFTGPU_CHECK(make_work(params, &work));
  Target target;
  SOFTGPU_CHECK(find_target(executable, handle, type_of(work), &target));
  if (std::holds_alternative<ChildWork>(work)) return CUDA_ERROR_INVALID_VALUE;
  target.node->work = std::make_shared<const Work>(std::move(work));
  return CUDA_SUCCESS;
}

}  // namespace

// --- copies
SOFTGPU_API cuGraphAddMemcpyNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* before,
                                 size_t count, const CUDA_MEMCPY3D* params, CUcontext) {
  SOFTGPU_MAKE(CopyWork, make_copy_work(params, &work));
  return add_node(out, graph, before, count, work);
}
SOFTGPU_API cuGraphMemcpyNodeGetParams(CUgraphNode node, CUDA_MEMCPY3D* out) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Target target;
  const CopyWork* work = nullptr;
  SOFTGPU_CHECK(read(node, &target, &work));
  *out = work->params;
  return CUDA_SUCCESS;
}
SOFTGPU_API cuGraphMemcpyNodeSetParams(CUgraphNode node, const CUDA_MEMCPY3D* params) {
  SOFTGPU_MAKE(CopyWork, make_copy_work(params, &work));
  return change(nullptr, node, work);
}
SOFTGPU_API cuGraphExecMemcpyNodeSetParams(CUgraphExec executable, CUgraphNode node,
                                           const CUDA_MEMCPY3D* params, CUcontext) {
  if (executable == nullptr) return CUDA_ERROR_INVALID_VALUE;
  SOFTGPU_MAKE(CopyWork, make_copy_work(params, &work));
  return change(executable, node, work);
}

// --- fills
SOFTGPU_API cuGraphAddMemsetNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* before,
                                 size_t count, const CUDA_MEMSET_NODE_PARAMS* params, CUcontext) {
  SOFTGPU_MAKE(FillWork, make_fill_work(params, &work));
  return add_node(out, graph, before, count, work);
}
SOFTGPU_API cuGraphMemsetNodeGetParams(CUgraphNode node, CUDA_MEMSET_NODE_PARAMS* out) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Target target;
  const FillWork* work = nullptr;
  SOFTGPU_CHECK(read(node, &target, &work));
  *out = work->params;
  return CUDA_SUCCESS;
}
SOFTGPU_API cuGraphMemsetNodeSetParams(CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS* params) {
  SOFTGPU_MAKE(FillWork, make_fill_work(params, &work));
  return change(nullptr, node, work);
}
SOFTGPU_API cuGraphExecMemsetNodeSetParams(CUgraphExec executable, CUgraphNode node,
                                           const CUDA_MEMSET_NODE_PARAMS* params, CUcontext) {
  if (executable == nullptr) return CUDA_ERROR_INVALID_VALUE;
  SOFTGPU_MAKE(FillWork, make_fill_work(params, &work));
  return change(executable, node, work);
}

// --- host functions
SOFTGPU_API cuGraphAddHostNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* before,
                               size_t count, const CUDA_HOST_NODE_PARAMS* params) {
  SOFTGPU_MAKE(HostWork, make_host(params, &work));
  return add_node(out, graph, before, count, work);
}
SOFTGPU_API cuGraphHostNodeGetParams(CUgraphNode node, CUDA_HOST_NODE_PARAMS* out) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Target target;
  const HostWork* work = nullptr;
  SOFTGPU_CHECK(read(node, &target, &work));
  *out = {work->function, work->data};
  return CUDA_SUCCESS;
}
SOFTGPU_API cuGraphHostNodeSetParams(CUgraphNode node, const CUDA_HOST_NODE_PARAMS* params) {
  SOFTGPU_MAKE(HostWork, make_host(params, &work));
  return change(nullptr, node, work);
}
SOFTGPU_API cuGraphExecHostNodeSetParams(CUgraphExec executable, CUgraphNode node,
                                         const CUDA_HOST_NODE_PARAMS* params) {
  if (executable == nullptr) return CUDA_ERROR_INVALID_VALUE;
  SOFTGPU_MAKE(HostWork, make_host(params, &work));
  return change(executable, node, work);
}

// --- events
SOFTGPU_API cuGraphAddEventRecordNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* before,
                                      size_t count, CUevent event) {
  SOFTGPU_MAKE(EventRecordWork, make_event(event, &work));
  return add_node(out, graph, before, count, work);
}
SOFTGPU_API cuGraphAddEventWaitNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* before,
                                    size_t count, CUevent event) {
  SOFTGPU_MAKE(EventWaitWork, make_event(event, &work));
  return add_node(out, graph, before, count, work);
}
SOFTGPU_API cuGraphEventRecordNodeGetEvent(CUgraphNode node, CUevent* out) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Target target;
  const EventRecordWork* work = nullptr;
  SOFTGPU_CHECK(read(node, &target, &work));
  *out = reinterpret_cast<CUevent>(work->event.get());
  return CUDA_SUCCESS;
}
SOFTGPU_API cuGraphEventWaitNodeGetEvent(CUgraphNode node, CUevent* out) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Target target;
  const EventWaitWork* work = nullptr;
  SOFTGPU_CHECK(read(node, &target, &work));
  *out = reinterpret_cast<CUevent>(work->event.get());
  return CUDA_SUCCESS;
}
SOFTGPU_API cuGraphEventRecordNodeSetEvent(CUgraphNode node, CUevent event) {
  SOFTGPU_MAKE(EventRecordWork, make_event(event, &work));
  return change(nullptr, node, work);
}
SOFTGPU_API cuGraphEventWaitNodeSetEvent(CUgraphNode node, CUevent event) {
  SOFTGPU_MAKE(EventWaitWork, make_event(event, &work));
  return change(nullptr, node, work);
}
SOFTGPU_API cuGraphExecEventRecordNodeSetEvent(CUgraphExec executable, CUgraphNode node,
                                               CUevent event) {
  if (executable == nullptr) return CUDA_ERROR_INVALID_VALUE;
  SOFTGPU_MAKE(EventRecordWork, make_event(event, &work));
  return change(executable, node, work);
}
SOFTGPU_API cuGraphExecEventWaitNodeSetEvent(CUgraphExec executable, CUgraphNode node,
                                             CUevent event) {
  if (executable == nullptr) return CUDA_ERROR_INVALID_VALUE;
  SOFTGPU_MAKE(EventWaitWork, make_event(event, &work));
  return change(executable, node, work);
}

// --- the rest
SOFTGPU_API cuGraphAddEmptyNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* before,
                                size_t count) {
  return add_node(out, graph, before, count, EmptyWork{});
}
SOFTGPU_API cuGraphAddChildGraphNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* before,
                                     size_t count, CUgraph child) {
  const std::lock_guard lock(graph_mutex());
  SOFTGPU_MAKE(ChildWork, make_child(child, &work));
  if (graph == child) return CUDA_ERROR_INVALID_VALUE;
  return add_node(out, graph, before, count, work);
}
SOFTGPU_API cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph* out) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Target target;
  const ChildWork* work = nullptr;
  SOFTGPU_CHECK(read(node, &target, &work));
  *out = state().graphs.add(work->graph);
  return CUDA_SUCCESS;
}
SOFTGPU_API cuGraphAddNode_v2(CUgraphNode* out, CUgraph graph, const CUgraphNode* before,
                              const CUgraphEdgeData* edges, size_t count,
                              CUgraphNodeParams* params) {
  for (std::size_t i = 0; edges != nullptr && i < count; ++i)
    if (edges[i].from_port != 0 || edges[i].to_port != 0 || edges[i].type != 0)
      return CUDA_ERROR_NOT_SUPPORTED;
  Work work = EmptyWork{};
  SOFTGPU_CHECK(make_work(params, &work));
  return add_node(out, graph, before, count, std::move(work));
}
#undef cuGraphAddNode
SOFTGPU_API cuGraphAddNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* before, size_t count,
                           CUgraphNodeParams* params) {
  return cuGraphAddNode_v2(out, graph, before, nullptr, count, params);
}
SOFTGPU_API cuGraphNodeSetParams(CUgraphNode node, CUgraphNodeParams* params) {
  return change_any(nullptr, node, params);
}
SOFTGPU_API cuGraphExecNodeSetParams(CUgraphExec executable, CUgraphNode node,
                                     CUgraphNodeParams* params) {
  return executable != nullptr ? change_any(executable, node, params) : CUDA_ERROR_INVALID_VALUE;
}
