// Making nodes of graphs, and changing them in executable graphs.
#include "shim/cudart/graph_node.h"

using namespace sluice::cudart;
using sluice::DriverTable;

namespace sluice::cudart {

cudaError_t to_driver_kernel(const DriverTable& cu, const cudaKernelNodeParams& params,
                             CUDA_KERNEL_NODE_PARAMS* to) noexcept {
  *to = {};
  if (cudaError_t error = registry().kernel(cu, params.func, &to->kern); error != cudaSuccess)
    return error;
  to->gridDimX = params.gridDim.x;
  to->gridDimY = params.gridDim.y;
  to->gridDimZ = params.gridDim.z;
  to->blockDimX = params.blockDim.x;
  to->blockDimY = params.blockDim.y;
  to->blockDimZ = params.blockDim.z;
  to->sharedMemBytes = params.sharedMemBytes;
  to->kernelParams = params.kernelParams;
  to->extra = params.extra;
  return cudaSuccess;
}

cudaMemcpy3DParms line_copy(void* to, const void* from, std::size_t bytes,
                            cudaMemcpyKind kind) noexcept {
  cudaMemcpy3DParms params{};
  params.srcPtr = {const_cast<void*>(from), bytes, bytes, 1};
  params.dstPtr = {to, bytes, bytes, 1};
  params.extent = {bytes, 1, 1};
  params.kind = kind;
  return params;
}

}  // namespace sluice::cudart

SLUICE_CUDART_API cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                                     const cudaGraphNode_t* dependencies,
                                                     std::size_t count,
                                                     const cudaKernelNodeParams* params) {
  if (params == nullptr) return record(cudaErrorInvalidValue);
  return with_context([&](const DriverTable& cu) {
    CUDA_KERNEL_NODE_PARAMS to;
    cudaError_t error = to_driver_kernel(cu, *params, &to);
    if (error != cudaSuccess) return error;
    return launch_error(cu, cu.cuGraphAddKernelNode_v2(node, graph, dependencies, count, &to),
                        params->gridDim, params->blockDim);
  });
}

SLUICE_CUDART_API cudaError_t cudaGraphKernelNodeSetParams(cudaGraphNode_t node,
                                                           const cudaKernelNodeParams* params) {
  if (params == nullptr) return record(cudaErrorInvalidValue);
  return with_context([&](const DriverTable& cu) {
    CUDA_KERNEL_NODE_PARAMS to;
    cudaError_t error = to_driver_kernel(cu, *params, &to);
    return error == cudaSuccess ? to_runtime(cu.cuGraphKernelNodeSetParams_v2(node, &to)) : error;
  });
}

SLUICE_CUDART_API cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t exec,
                                                               cudaGraphNode_t node,
                                                               const cudaKernelNodeParams* params) {
  if (params == nullptr) return record(cudaErrorInvalidValue);
  return with_context([&](const DriverTable& cu) {
    CUDA_KERNEL_NODE_PARAMS to;
    cudaError_t error = to_driver_kernel(cu, *params, &to);
    return error == cudaSuccess ? to_runtime(cu.cuGraphExecKernelNodeSetParams_v2(exec, node, &to))
                                : error;
  });
}

SLUICE_CUDART_API cudaError_t cudaGraphAddMemcpyNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                                     const cudaGraphNode_t* dependencies,
                                                     std::size_t count,
                                                     const cudaMemcpy3DParms* params) {
  if (params == nullptr) return record(cudaErrorInvalidValue);
  return with_current([&](const DriverTable& cu, CUcontext context) {
    CUDA_MEMCPY3D copy;
    cudaError_t error = to_driver_copy(cu, *params, &copy);
    return error == cudaSuccess ? to_runtime(cu.cuGraphAddMemcpyNode(node, graph, dependencies,
                                                                     count, &copy, context))
                                : error;
  });
}

SLUICE_CUDART_API cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t* node, cudaGraph_t graph,
                                                       const cudaGraphNode_t* dependencies,
                                                       std::size_t count, void* to,
                                                       const void* from, std::size_t bytes,
                                                       cudaMemcpyKind kind) {
  const cudaMemcpy3DParms params = line_copy(to, from, bytes, kind);
  return cudaGraphAddMemcpyNode(node, graph, dependencies, count, &params);
}

SLUICE_CUDART_API cudaError_t cudaGraphExecMemcpyNodeSetParams(cudaGraphExec_t exec,
                                                               cudaGraphNode_t node,
                                                               const cudaMemcpy3DParms* params) {
  if (params == nullptr) return record(cudaErrorInvalidValue);
  return with_current([&](const DriverTable& cu, CUcontext context) {
    CUDA_MEMCPY3D copy;
    cudaError_t error = to_driver_copy(cu, *params, &copy);
    return error == cudaSuccess
               ? to_runtime(cu.cuGraphExecMemcpyNodeSetParams(exec, node, &copy, context))
               : error;
  });
}

SLUICE_CUDART_API cudaError_t cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t exec,
                                                                 cudaGraphNode_t node, void* to,
                                                                 const void* from,
                                                                 std::size_t bytes,
                                                                 cudaMemcpyKind kind) {
  const cudaMemcpy3DParms params = line_copy(to, from, bytes, kind);
  return cudaGraphExecMemcpyNodeSetParams(exec, node, &params);
}

SLUICE_CUDART_API cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                                     const cudaGraphNode_t* dependencies,
                                                     std::size_t count,
                                                     const cudaMemsetParams* params) {
  return with_current([&](const DriverTable& cu, CUcontext context) {
    return cu.cuGraphAddMemsetNode(node, graph, dependencies, count,
                                   same_layout<const CUDA_MEMSET_NODE_PARAMS*>(params), context);
  });
}

SLUICE_CUDART_API cudaError_t cudaGraphExecMemsetNodeSetParams(cudaGraphExec_t exec,
                                                               cudaGraphNode_t node,
                                                               const cudaMemsetParams* params) {
  return with_current([&](const DriverTable& cu, CUcontext context) {
    return cu.cuGraphExecMemsetNodeSetParams(
        exec, node, same_layout<const CUDA_MEMSET_NODE_PARAMS*>(params), context);
  });
}

SLUICE_CUDART_API cudaError_t cudaGraphAddHostNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                                   const cudaGraphNode_t* dependencies,
                                                   std::size_t count,
                                                   const cudaHostNodeParams* params) {
  return with_context([&](const DriverTable& cu) {
    return cu.cuGraphAddHostNode(node, graph, dependencies, count,
                                 same_layout<const CUDA_HOST_NODE_PARAMS*>(params));
  });
}

SLUICE_CUDART_API cudaError_t cudaGraphAddChildGraphNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                                         const cudaGraphNode_t* dependencies,
                                                         std::size_t count, cudaGraph_t child) {
  return with_context([&](const DriverTable& cu) {
    return cu.cuGraphAddChildGraphNode(node, graph, dependencies, count, child);
  });
}

SLUICE_CUDART_API cudaError_t cudaGraphChildGraphNodeGetGraph(cudaGraphNode_t node,
                                                              cudaGraph_t* graph) {
  return with_context(
      [&](const DriverTable& cu) { return cu.cuGraphChildGraphNodeGetGraph(node, graph); });
}

SLUICE_CUDART_API cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                                    const cudaGraphNode_t* dependencies,
                                                    std::size_t count) {
  return with_context([&](const DriverTable& cu) {
    return cu.cuGraphAddEmptyNode(node, graph, dependencies, count);
  });
}

SLUICE_CUDART_API cudaError_t cudaGraphAddEventRecordNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                                          const cudaGraphNode_t* dependencies,
                                                          std::size_t count, cudaEvent_t event) {
  return with_context([&](const DriverTable& cu) {
    return cu.cuGraphAddEventRecordNode(node, graph, dependencies, count, event);
  });
}

SLUICE_CUDART_API cudaError_t cudaGraphAddEventWaitNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                                        const cudaGraphNode_t* dependencies,
                                                        std::size_t count, cudaEvent_t event) {
  return with_context([&](const DriverTable& cu) {
    return cu.cuGraphAddEventWaitNode(node, graph, dependencies, count, event);
  });
}

SLUICE_CUDART_API cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* type) {
  return with_context([&](const DriverTable& cu) {
    return cu.cuGraphNodeGetType(node, same_layout<CUgraphNodeType*>(type));
  });
}

SLUICE_CUDART_API cudaError_t cudaGraphNodeFindInClone(cudaGraphNode_t* node,
                                                       cudaGraphNode_t original,
                                                       cudaGraph_t clone) {
  return with_context(
      [&](const DriverTable& cu) { return cu.cuGraphNodeFindInClone(node, original, clone); });
}

SLUICE_CUDART_API cudaError_t cudaGraphNodeGetDependencies_v2(cudaGraphNode_t node,
                                                              cudaGraphNode_t* dependencies,
                                                              cudaGraphEdgeData* edges,
                                                              std::size_t* count) {
  return with_context([&](const DriverTable& cu) {
    return cu.cuGraphNodeGetDependencies_v2(node, dependencies,
                                            same_layout<CUgraphEdgeData*>(edges), count);
  });
}

SLUICE_CUDART_API cudaError_t cudaGraphNodeGetDependentNodes_v2(cudaGraphNode_t node,
                                                                cudaGraphNode_t* dependents,
                                                                cudaGraphEdgeData* edges,
                                                                std::size_t* count) {
  return with_context([&](const DriverTable& cu) {
    return cu.cuGraphNodeGetDependentNodes_v2(node, dependents,
                                              same_layout<CUgraphEdgeData*>(edges), count);
  });
}

SLUICE_CUDART_API cudaError_t cudaGraphDestroyNode(cudaGraphNode_t node) {
  return with_context([&](const DriverTable& cu) { return cu.cuGraphDestroyNode(node); });
}

SLUICE_CUDART_API cudaError_t cudaGraphNodeSetEnabled(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                      unsigned is_enabled) {
  return with_context(
      [&](const DriverTable& cu) { return cu.cuGraphNodeSetEnabled(exec, node, is_enabled); });
}

SLUICE_CUDART_API cudaError_t cudaGraphNodeGetEnabled(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                      unsigned* is_enabled) {
  return with_context(
      [&](const DriverTable& cu) { return cu.cuGraphNodeGetEnabled(exec, node, is_enabled); });
}
