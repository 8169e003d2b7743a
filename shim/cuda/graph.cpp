// Graphs: the worker's driver has them, the shim knows what in them concerns the application's
// memory and functions.
#include "protocol/graph.h"

#include "shim/api.h"

using namespace sluice;
using namespace sluice::shim;

namespace {

/// The shim's mirror of a graph; one without is a graph of which nothing concerns the client.
std::vector<GraphNode> nodes_of(CUgraph handle) {
  const auto* graph = object_of<std::shared_ptr<Graph>>(handle);
  if (graph == nullptr) return {};
  std::lock_guard lock((*graph)->mutex);
  return (*graph)->nodes;
}

CUresult instantiate(CUgraphExec* out, CUgraph graph, unsigned long long flags) {
  wire::cuGraphInstantiateWithFlags args{};
  if (const CUresult bad = to_wire(graph, &args.hGraph)) return bad;
  args.phGraphExec = reserve_id();
  args.flags = flags;
  wire::cuGraphInstantiateWithFlags::Reply reply{};
  if (const CUresult failed = call(args, reply)) return failed;
  auto exec = std::make_shared<GraphExec>();
  if (const CUresult failed =
          session().graphs().plan(args.phGraphExec, nodes_of(graph), exec.get())) {
    wire::cuGraphExecDestroy undo{};
    undo.hGraphExec = args.phGraphExec;
    post(undo);
    return failed;
  }
  Entry entry;
  entry.id = args.phGraphExec;
  entry.object = new std::shared_ptr<GraphExec>(std::move(exec));
  *out = new_handle<CUgraphExec>(entry);
  return *out != nullptr ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

}  // namespace

SLUICE_API cuGraphClone(CUgraph* phGraphClone, CUgraph originalGraph) {
  if (const CUresult refused = enter(wire::Fn::cuGraphClone)) return refused;
  if (phGraphClone == nullptr || originalGraph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  wire::graph_clone args{};
  if (const CUresult bad = to_wire(originalGraph, &args.graph)) return bad;
  args.clone = reserve_id();
  wire::graph_clone::Reply reply{};
  if (const CUresult failed = call(args, reply)) return failed;
  auto graph = std::make_shared<Graph>();
  graph->nodes = nodes_of(originalGraph);
  Entry entry;
  entry.id = args.clone;
  entry.object = new std::shared_ptr<Graph>(std::move(graph));
  *phGraphClone = new_handle<CUgraph>(entry);
  return *phGraphClone != nullptr ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

SLUICE_API cuGraphInstantiateWithFlags(CUgraphExec* phGraphExec, CUgraph hGraph,
                                       unsigned long long flags) {
  if (const CUresult refused = enter(wire::Fn::cuGraphInstantiateWithFlags)) return refused;
  if (phGraphExec == nullptr || hGraph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return instantiate(phGraphExec, hGraph, flags);
}

SLUICE_API cuGraphInstantiateWithParams(CUgraphExec* phGraphExec, CUgraph hGraph,
                                        CUDA_GRAPH_INSTANTIATE_PARAMS* instantiateParams) {
  if (const CUresult refused = enter(wire::Fn::cuGraphInstantiateWithParams)) return refused;
  if (phGraphExec == nullptr || hGraph == nullptr || instantiateParams == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  instantiateParams->hErrNode_out = nullptr;
  instantiateParams->result_out = CUDA_GRAPH_INSTANTIATE_ERROR;
  const unsigned long long upload = CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD;
  if (const CUresult failed = instantiate(phGraphExec, hGraph, instantiateParams->flags & ~upload))
    return failed;
  instantiateParams->result_out = CUDA_GRAPH_INSTANTIATE_SUCCESS;
  return CUDA_SUCCESS;
}

SLUICE_API cuGraphExecDestroy(CUgraphExec hGraphExec) {
  if (const CUresult refused = enter(wire::Fn::cuGraphExecDestroy)) return refused;
  Entry entry;
  if (!handles().remove(Kind::kGraphExec, handle_bits(hGraphExec), &entry))
    return CUDA_ERROR_INVALID_VALUE;
  wire::cuGraphExecDestroy args{};
  args.hGraphExec = entry.id;
  const CUresult result = post(args);
  drop_object(Kind::kGraphExec, entry);
  return result;
}

SLUICE_API cuGraphLaunch(CUgraphExec hGraphExec, CUstream hStream) {
  if (const CUresult refused = enter(wire::Fn::cuGraphLaunch)) return refused;
  Entry entry;
  if (!handles().find(Kind::kGraphExec, handle_bits(hGraphExec), &entry))
    return CUDA_ERROR_INVALID_VALUE;
  const std::shared_ptr<GraphExec> exec = *static_cast<std::shared_ptr<GraphExec>*>(entry.object);
  Stream* stream = nullptr;
  if (const CUresult bad = use_stream(hStream, &stream)) return bad;
  if (stream->is_capturing.load()) {
    session().captures().add_child(*stream, *exec);
  } else if (exec->touches_client()) {
    return session().graphs().launch(exec, entry.id, *stream, current_context_id());
  }
  wire::cuGraphLaunch args{};
  args.hGraphExec = entry.id;
  args.hStream = stream->id;
  return post(args);
}
