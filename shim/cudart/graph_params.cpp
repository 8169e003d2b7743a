// Reading and changing the parameters of nodes that exist.
#include "shim/cudart/graph_node.h"
#include "shim/cudart/registry.h"

using namespace sluice::cudart;
using sluice::DriverTable;

namespace {

/// `bytes` bytes at `offset` inside a variable.
cudaError_t place_symbol(const void* symbol, std::size_t offset, std::size_t bytes, void** memory) {
  std::size_t size = 0;
  if (cudaError_t error = cudaGetSymbolSize(&size, symbol); error != cudaSuccess) return error;
  if (offset > size || bytes > size - offset) return record(cudaErrorInvalidValue);
  if (cudaError_t error = cudaGetSymbolAddress(memory, symbol); error != cudaSuccess) return error;
  *memory = static_cast<char*>(*memory) + offset;
  return cudaSuccess;
}

/// Runs `set(params)` for the copy into or out of a variable.
template <class Set>
cudaError_t copy_to_symbol(const void* symbol, const void* from, std::size_t bytes,
                           std::size_t offset, cudaMemcpyKind kind, Set&& set) {
  void* to = nullptr;
  if (cudaError_t error = place_symbol(symbol, offset, bytes, &to); error != cudaSuccess)
    return error;
  const cudaMemcpy3DParms params = line_copy(to, from, bytes, kind);
  return set(&params);
}
template <class Set>
cudaError_t copy_from_symbol(void* to, const void* symbol, std::size_t bytes, std::size_t offset,
                             cudaMemcpyKind kind, Set&& set) {
  void* from = nullptr;
  if (cudaError_t error = place_symbol(symbol, offset, bytes, &from); error != cudaSuccess)
    return error;
  const cudaMemcpy3DParms params = line_copy(to, from, bytes, kind);
  return set(&params);
}

}  // namespace

SLUICE_CUDART_API cudaError_t cudaGraphKernelNodeGetParams(cudaGraphNode_t node,
                                                           cudaKernelNodeParams* params) {
  if (params == nullptr) return record(cudaErrorInvalidValue);
  return with_context([&](const DriverTable& cu) {
    CUDA_KERNEL_NODE_PARAMS from{};
    if (CUresult result = cu.cuGraphKernelNodeGetParams_v2(node, &from); result != CUDA_SUCCESS)
      return result;
    // A node made from a kernel may be told by its function only, which works as a handle, too.
    const CUkernel kernel =
        from.kern != nullptr ? from.kern : reinterpret_cast<CUkernel>(from.func);
    params->func = const_cast<void*>(registry().host_of(kernel));
    params->gridDim = {from.gridDimX, from.gridDimY, from.gridDimZ};
    params->blockDim = {from.blockDimX, from.blockDimY, from.blockDimZ};
    params->sharedMemBytes = from.sharedMemBytes;
    params->kernelParams = from.kernelParams;
    params->extra = from.extra;
    return CUDA_SUCCESS;
  });
}

SLUICE_CUDART_API cudaError_t cudaGraphKernelNodeCopyAttributes(cudaGraphNode_t to,
                                                                cudaGraphNode_t from) {
  // The driver's order; headers before CUDA 13 named the parameters the other way round.
  return with_context(
      [&](const DriverTable& cu) { return cu.cuGraphKernelNodeCopyAttributes(to, from); });
}

SLUICE_CUDART_API cudaError_t cudaGraphKernelNodeGetAttribute(cudaGraphNode_t node,
                                                              cudaLaunchAttributeID attribute,
                                                              cudaLaunchAttributeValue* value) {
  return with_context([&](const DriverTable& cu) {
    return cu.cuGraphKernelNodeGetAttribute(node, static_cast<CUkernelNodeAttrID>(attribute),
                                            same_layout<CUkernelNodeAttrValue*>(value));
  });
}

SLUICE_CUDART_API cudaError_t cudaGraphKernelNodeSetAttribute(
    cudaGraphNode_t node, cudaLaunchAttributeID attribute, const cudaLaunchAttributeValue* value) {
  return with_context([&](const DriverTable& cu) {
    return cu.cuGraphKernelNodeSetAttribute(node, static_cast<CUkernelNodeAttrID>(attribute),
                                            same_layout<const CUkernelNodeAttrValue*>(value));
  });
}

SLUICE_CUDART_API cudaError_t cudaGraphMemcpyNodeGetParams(cudaGraphNode_t node,
                                                           cudaMemcpy3DParms* params) {
  if (params == nullptr) return record(cudaErrorInvalidValue);
  return with_context([&](const DriverTable& cu) {
    CUDA_MEMCPY3D copy{};
    CUresult result = cu.cuGraphMemcpyNodeGetParams(node, &copy);
    return result == CUDA_SUCCESS ? from_driver_copy(cu, copy, params) : to_runtime(result);
  });
}

SLUICE_CUDART_API cudaError_t cudaGraphMemcpyNodeSetParams(cudaGraphNode_t node,
                                                           const cudaMemcpy3DParms* params) {
  if (params == nullptr) return record(cudaErrorInvalidValue);
  return with_context([&](const DriverTable& cu) {
    CUDA_MEMCPY3D copy;
    cudaError_t error = to_driver_copy(cu, *params, &copy);
    return error == cudaSuccess ? to_runtime(cu.cuGraphMemcpyNodeSetParams(node, &copy)) : error;
  });
}

SLUICE_CUDART_API cudaError_t cudaGraphMemcpyNodeSetParams1D(cudaGraphNode_t node, void* to,
                                                             const void* from, std::size_t bytes,
                                                             cudaMemcpyKind kind) {
  const cudaMemcpy3DParms params = line_copy(to, from, bytes, kind);
  return cudaGraphMemcpyNodeSetParams(node, &params);
}

SLUICE_CUDART_API cudaError_t cudaGraphAddMemcpyNodeToSymbol(
    cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
    std::size_t count, const void* symbol, const void* from, std::size_t bytes, std::size_t offset,
    cudaMemcpyKind kind) {
  return copy_to_symbol(symbol, from, bytes, offset, kind, [&](const cudaMemcpy3DParms* params) {
    return cudaGraphAddMemcpyNode(node, graph, dependencies, count, params);
  });
}

SLUICE_CUDART_API cudaError_t cudaGraphAddMemcpyNodeFromSymbol(
    cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
    std::size_t count, void* to, const void* symbol, std::size_t bytes, std::size_t offset,
    cudaMemcpyKind kind) {
  return copy_from_symbol(to, symbol, bytes, offset, kind, [&](const cudaMemcpy3DParms* params) {
    return cudaGraphAddMemcpyNode(node, graph, dependencies, count, params);
  });
}

SLUICE_CUDART_API cudaError_t
cudaGraphMemcpyNodeSetParamsToSymbol(cudaGraphNode_t node, const void* symbol, const void* from,
                                     std::size_t bytes, std::size_t offset, cudaMemcpyKind kind) {
  return copy_to_symbol(symbol, from, bytes, offset, kind, [&](const cudaMemcpy3DParms* params) {
    return cudaGraphMemcpyNodeSetParams(node, params);
  });
}

SLUICE_CUDART_API cudaError_t cudaGraphMemcpyNodeSetParamsFromSymbol(cudaGraphNode_t node, void* to,
                                                                     const void* symbol,
                                                                     std::size_t bytes,
                                                                     std::size_t offset,
                                                                     cudaMemcpyKind kind) {
  return copy_from_symbol(to, symbol, bytes, offset, kind, [&](const cudaMemcpy3DParms* params) {
    return cudaGraphMemcpyNodeSetParams(node, params);
  });
}

SLUICE_CUDART_API cudaError_t cudaGraphExecMemcpyNodeSetParamsToSymbol(
    cudaGraphExec_t exec, cudaGraphNode_t node, const void* symbol, const void* from,
    std::size_t bytes, std::size_t offset, cudaMemcpyKind kind) {
  return copy_to_symbol(symbol, from, bytes, offset, kind, [&](const cudaMemcpy3DParms* params) {
    return cudaGraphExecMemcpyNodeSetParams(exec, node, params);
  });
}

SLUICE_CUDART_API cudaError_t cudaGraphExecMemcpyNodeSetParamsFromSymbol(
    cudaGraphExec_t exec, cudaGraphNode_t node, void* to, const void* symbol, std::size_t bytes,
    std::size_t offset, cudaMemcpyKind kind) {
  return copy_from_symbol(to, symbol, bytes, offset, kind, [&](const cudaMemcpy3DParms* params) {
    return cudaGraphExecMemcpyNodeSetParams(exec, node, params);
  });
}

SLUICE_CUDART_API cudaError_t cudaGraphMemsetNodeGetParams(cudaGraphNode_t node,
                                                           cudaMemsetParams* params) {
  return with_context([&](const DriverTable& cu) {
    return cu.cuGraphMemsetNodeGetParams(node, same_layout<CUDA_MEMSET_NODE_PARAMS*>(params));
  });
}

SLUICE_CUDART_API cudaError_t cudaGraphMemsetNodeSetParams(cudaGraphNode_t node,
                                                           const cudaMemsetParams* params) {
  return with_context([&](const DriverTable& cu) {
    return cu.cuGraphMemsetNodeSetParams(node, same_layout<const CUDA_MEMSET_NODE_PARAMS*>(params));
  });
}

SLUICE_CUDART_API cudaError_t cudaGraphHostNodeGetParams(cudaGraphNode_t node,
                                                         cudaHostNodeParams* params) {
  return with_context([&](const DriverTable& cu) {
    return cu.cuGraphHostNodeGetParams(node, same_layout<CUDA_HOST_NODE_PARAMS*>(params));
  });
}

SLUICE_CUDART_API cudaError_t cudaGraphHostNodeSetParams(cudaGraphNode_t node,
                                                         const cudaHostNodeParams* params) {
  return with_context([&](const DriverTable& cu) {
    return cu.cuGraphHostNodeSetParams(node, same_layout<const CUDA_HOST_NODE_PARAMS*>(params));
  });
}

SLUICE_CUDART_API cudaError_t cudaGraphExecHostNodeSetParams(cudaGraphExec_t exec,
                                                             cudaGraphNode_t node,
                                                             const cudaHostNodeParams* params) {
  return with_context([&](const DriverTable& cu) {
    return cu.cuGraphExecHostNodeSetParams(exec, node,
                                           same_layout<const CUDA_HOST_NODE_PARAMS*>(params));
  });
}

SLUICE_CUDART_API cudaError_t cudaGraphExecChildGraphNodeSetParams(cudaGraphExec_t exec,
                                                                   cudaGraphNode_t node,
                                                                   cudaGraph_t child) {
  return with_context([&](const DriverTable& cu) {
    return cu.cuGraphExecChildGraphNodeSetParams(exec, node, child);
  });
}

SLUICE_CUDART_API cudaError_t cudaGraphEventRecordNodeGetEvent(cudaGraphNode_t node,
                                                               cudaEvent_t* event) {
  return with_context(
      [&](const DriverTable& cu) { return cu.cuGraphEventRecordNodeGetEvent(node, event); });
}

SLUICE_CUDART_API cudaError_t cudaGraphEventRecordNodeSetEvent(cudaGraphNode_t node,
                                                               cudaEvent_t event) {
  return with_context(
      [&](const DriverTable& cu) { return cu.cuGraphEventRecordNodeSetEvent(node, event); });
}

SLUICE_CUDART_API cudaError_t cudaGraphExecEventRecordNodeSetEvent(cudaGraphExec_t exec,
                                                                   cudaGraphNode_t node,
                                                                   cudaEvent_t event) {
  return with_context([&](const DriverTable& cu) {
    return cu.cuGraphExecEventRecordNodeSetEvent(exec, node, event);
  });
}

SLUICE_CUDART_API cudaError_t cudaGraphEventWaitNodeGetEvent(cudaGraphNode_t node,
                                                             cudaEvent_t* event) {
  return with_context(
      [&](const DriverTable& cu) { return cu.cuGraphEventWaitNodeGetEvent(node, event); });
}

SLUICE_CUDART_API cudaError_t cudaGraphEventWaitNodeSetEvent(cudaGraphNode_t node,
                                                             cudaEvent_t event) {
  return with_context(
      [&](const DriverTable& cu) { return cu.cuGraphEventWaitNodeSetEvent(node, event); });
}

SLUICE_CUDART_API cudaError_t cudaGraphExecEventWaitNodeSetEvent(cudaGraphExec_t exec,
                                                                 cudaGraphNode_t node,
                                                                 cudaEvent_t event) {
  return with_context([&](const DriverTable& cu) {
    return cu.cuGraphExecEventWaitNodeSetEvent(exec, node, event);
  });
}
