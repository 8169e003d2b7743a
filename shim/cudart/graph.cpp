// Graphs as wholes: create, inspect, instantiate, launch, destroy.
#include "shim/cudart/runtime.h"

using namespace sluice::cudart;
using sluice::DriverTable;

SLUICE_CUDART_API cudaError_t cudaGraphCreate(cudaGraph_t* graph, unsigned flags) {
  return with_context([&](const DriverTable& cu) { return cu.cuGraphCreate(graph, flags); });
}

SLUICE_CUDART_API cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return with_context([&](const DriverTable& cu) { return cu.cuGraphDestroy(graph); });
}

SLUICE_CUDART_API cudaError_t cudaGraphClone(cudaGraph_t* clone, cudaGraph_t original) {
  return with_context([&](const DriverTable& cu) { return cu.cuGraphClone(clone, original); });
}

SLUICE_CUDART_API cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* exec,
                                                            cudaGraph_t graph,
                                                            unsigned long long flags) {
  return with_context(
      [&](const DriverTable& cu) { return cu.cuGraphInstantiateWithFlags(exec, graph, flags); });
}

SLUICE_CUDART_FORM(12, cudaGraphInstantiate)
(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long flags) {
  return cudaGraphInstantiateWithFlags(exec, graph, flags);
}

SLUICE_CUDART_API cudaError_t cudaGraphInstantiateWithParams(cudaGraphExec_t* exec,
                                                             cudaGraph_t graph,
                                                             cudaGraphInstantiateParams* params) {
  return with_context([&](const DriverTable& cu) {
    return cu.cuGraphInstantiateWithParams(exec, graph,
                                           same_layout<CUDA_GRAPH_INSTANTIATE_PARAMS*>(params));
  });
}

SLUICE_CUDART_API cudaError_t cudaGraphInstantiateWithParams_ptsz(
    cudaGraphExec_t* exec, cudaGraph_t graph, cudaGraphInstantiateParams* params) {
  if (params == nullptr) return record(cudaErrorInvalidValue);
  const cudaStream_t asked = params->uploadStream;
  if (asked == nullptr) params->uploadStream = cudaStreamPerThread;
  const cudaError_t error = cudaGraphInstantiateWithParams(exec, graph, params);
  params->uploadStream = asked;
  return error;
}

SLUICE_CUDART_API cudaError_t cudaGraphExecGetFlags(cudaGraphExec_t exec,
                                                    unsigned long long* flags) {
  return with_context([&](const DriverTable& cu) {
    cuuint64_t value = 0;
    CUresult result = cu.cuGraphExecGetFlags(exec, &value);
    if (flags != nullptr) *flags = value;
    return result;
  });
}

SLUICE_CUDART_API cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t stream) {
  return with_context([&](const DriverTable& cu) { return cu.cuGraphUpload(exec, stream); });
}

SLUICE_CUDART_API cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  return with_context([&](const DriverTable& cu) { return cu.cuGraphLaunch(exec, stream); });
}

SLUICE_CUDART_API cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  return with_context([&](const DriverTable& cu) { return cu.cuGraphExecDestroy(exec); });
}

SLUICE_CUDART_FORM(12, cudaGraphExecUpdate)
(cudaGraphExec_t exec, cudaGraph_t graph, cudaGraphExecUpdateResultInfo* info) {
  return with_context([&](const DriverTable& cu) {
    return cu.cuGraphExecUpdate_v2(exec, graph, same_layout<CUgraphExecUpdateResultInfo*>(info));
  });
}

SLUICE_CUDART_API cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes,
                                                std::size_t* count) {
  return with_context(
      [&](const DriverTable& cu) { return cu.cuGraphGetNodes(graph, nodes, count); });
}

SLUICE_CUDART_API cudaError_t cudaGraphGetRootNodes(cudaGraph_t graph, cudaGraphNode_t* nodes,
                                                    std::size_t* count) {
  return with_context(
      [&](const DriverTable& cu) { return cu.cuGraphGetRootNodes(graph, nodes, count); });
}

SLUICE_CUDART_API cudaError_t cudaGraphGetEdges_v2(cudaGraph_t graph, cudaGraphNode_t* from,
                                                   cudaGraphNode_t* to, cudaGraphEdgeData* edges,
                                                   std::size_t* count) {
  return with_context([&](const DriverTable& cu) {
    return cu.cuGraphGetEdges_v2(graph, from, to, same_layout<CUgraphEdgeData*>(edges), count);
  });
}

SLUICE_CUDART_API cudaError_t cudaGraphAddDependencies_v2(cudaGraph_t graph,
                                                          const cudaGraphNode_t* from,
                                                          const cudaGraphNode_t* to,
                                                          const cudaGraphEdgeData* edges,
                                                          std::size_t count) {
  return with_context([&](const DriverTable& cu) {
    return cu.cuGraphAddDependencies_v2(graph, from, to, same_layout<const CUgraphEdgeData*>(edges),
                                        count);
  });
}

SLUICE_CUDART_API cudaError_t cudaGraphRemoveDependencies_v2(cudaGraph_t graph,
                                                             const cudaGraphNode_t* from,
                                                             const cudaGraphNode_t* to,
                                                             const cudaGraphEdgeData* edges,
                                                             std::size_t count) {
  return with_context([&](const DriverTable& cu) {
    return cu.cuGraphRemoveDependencies_v2(graph, from, to,
                                           same_layout<const CUgraphEdgeData*>(edges), count);
  });
}

SLUICE_CUDART_API cudaError_t cudaGraphDebugDotPrint(cudaGraph_t graph, const char* path,
                                                     unsigned flags) {
  return with_context(
      [&](const DriverTable& cu) { return cu.cuGraphDebugDotPrint(graph, path, flags); });
}

SLUICE_CUDART_API cudaError_t cudaUserObjectCreate(cudaUserObject_t* object, void* pointer,
                                                   cudaHostFn_t destroy, unsigned count,
                                                   unsigned flags) {
  return with_context([&](const DriverTable& cu) {
    return cu.cuUserObjectCreate(object, pointer, destroy, count, flags);
  });
}

SLUICE_CUDART_API cudaError_t cudaUserObjectRetain(cudaUserObject_t object, unsigned count) {
  return with_context([&](const DriverTable& cu) { return cu.cuUserObjectRetain(object, count); });
}

SLUICE_CUDART_API cudaError_t cudaUserObjectRelease(cudaUserObject_t object, unsigned count) {
  return with_context([&](const DriverTable& cu) { return cu.cuUserObjectRelease(object, count); });
}

SLUICE_CUDART_API cudaError_t cudaGraphRetainUserObject(cudaGraph_t graph, cudaUserObject_t object,
                                                        unsigned count, unsigned flags) {
  return with_context([&](const DriverTable& cu) {
    return cu.cuGraphRetainUserObject(graph, object, count, flags);
  });
}

SLUICE_CUDART_API cudaError_t cudaGraphReleaseUserObject(cudaGraph_t graph, cudaUserObject_t object,
                                                         unsigned count) {
  return with_context(
      [&](const DriverTable& cu) { return cu.cuGraphReleaseUserObject(graph, object, count); });
}
