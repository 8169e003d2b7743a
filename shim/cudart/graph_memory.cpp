// Memory that graphs allocate, semaphores in graphs, and nodes described by one struct for every
// kind.
#include "shim/cudart/graph_node.h"
#include "shim/cudart/newest.h"
#include "shim/cudart/registry.h"

#include <cstring>

using namespace sluice::cudart;
using sluice::DriverTable;

SLUICE_CUDART_API cudaError_t cudaGraphAddMemAllocNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                                       const cudaGraphNode_t* dependencies,
                                                       std::size_t count,
                                                       cudaMemAllocNodeParams* params) {
  return with_context([&](const DriverTable& cu) {
    return cu.cuGraphAddMemAllocNode(node, graph, dependencies, count,
                                     same_layout<CUDA_MEM_ALLOC_NODE_PARAMS*>(params));
  });
}

SLUICE_CUDART_API cudaError_t cudaGraphMemAllocNodeGetParams(cudaGraphNode_t node,
                                                             cudaMemAllocNodeParams* params) {
  return with_context([&](const DriverTable& cu) {
    return cu.cuGraphMemAllocNodeGetParams(node, same_layout<CUDA_MEM_ALLOC_NODE_PARAMS*>(params));
  });
}

SLUICE_CUDART_API cudaError_t cudaGraphAddMemFreeNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                                      const cudaGraphNode_t* dependencies,
                                                      std::size_t count, void* memory) {
  return with_context([&](const DriverTable& cu) {
    return cu.cuGraphAddMemFreeNode(node, graph, dependencies, count, address(memory));
  });
}

SLUICE_CUDART_API cudaError_t cudaGraphMemFreeNodeGetParams(cudaGraphNode_t node, void* memory) {
  return with_context([&](const DriverTable& cu) {
    return cu.cuGraphMemFreeNodeGetParams(node, static_cast<CUdeviceptr*>(memory));
  });
}

SLUICE_CUDART_API cudaError_t cudaDeviceGraphMemTrim(int device) {
  return with_device(device, [&](const DriverTable& cu, CUdevice handle) {
    return cu.cuDeviceGraphMemTrim(handle);
  });
}

SLUICE_CUDART_API cudaError_t cudaDeviceGetGraphMemAttribute(int device,
                                                             cudaGraphMemAttributeType attribute,
                                                             void* value) {
  return with_device(device, [&](const DriverTable& cu, CUdevice handle) {
    return cu.cuDeviceGetGraphMemAttribute(handle, static_cast<CUgraphMem_attribute>(attribute),
                                           value);
  });
}

SLUICE_CUDART_API cudaError_t cudaDeviceSetGraphMemAttribute(int device,
                                                             cudaGraphMemAttributeType attribute,
                                                             void* value) {
  return with_device(device, [&](const DriverTable& cu, CUdevice handle) {
    return cu.cuDeviceSetGraphMemAttribute(handle, static_cast<CUgraphMem_attribute>(attribute),
                                           value);
  });
}

// Semaphore nodes: a list of handles and CUDA 13's parameter structs (in every version).
SLUICE_CUDART_API cudaError_t cudaGraphAddExternalSemaphoresSignalNode(
    cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
    std::size_t count, const cudaExternalSemaphoreSignalNodeParams* params) {
  return with_context([&](const DriverTable& cu) {
    return cu.cuGraphAddExternalSemaphoresSignalNode(
        node, graph, dependencies, count,
        same_layout<const CUDA_EXT_SEM_SIGNAL_NODE_PARAMS*>(params));
  });
}

SLUICE_CUDART_API cudaError_t cudaGraphExternalSemaphoresSignalNodeGetParams(
    cudaGraphNode_t node, cudaExternalSemaphoreSignalNodeParams* params) {
  return with_context([&](const DriverTable& cu) {
    return cu.cuGraphExternalSemaphoresSignalNodeGetParams(
        node, same_layout<CUDA_EXT_SEM_SIGNAL_NODE_PARAMS*>(params));
  });
}

SLUICE_CUDART_API cudaError_t cudaGraphExternalSemaphoresSignalNodeSetParams(
    cudaGraphNode_t node, const cudaExternalSemaphoreSignalNodeParams* params) {
  return with_context([&](const DriverTable& cu) {
    return cu.cuGraphExternalSemaphoresSignalNodeSetParams(
        node, same_layout<const CUDA_EXT_SEM_SIGNAL_NODE_PARAMS*>(params));
  });
}

SLUICE_CUDART_API cudaError_t cudaGraphExecExternalSemaphoresSignalNodeSetParams(
    cudaGraphExec_t exec, cudaGraphNode_t node,
    const cudaExternalSemaphoreSignalNodeParams* params) {
  return with_context([&](const DriverTable& cu) {
    return cu.cuGraphExecExternalSemaphoresSignalNodeSetParams(
        exec, node, same_layout<const CUDA_EXT_SEM_SIGNAL_NODE_PARAMS*>(params));
  });
}

SLUICE_CUDART_API cudaError_t cudaGraphAddExternalSemaphoresWaitNode(
    cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
    std::size_t count, const cudaExternalSemaphoreWaitNodeParams* params) {
  return with_context([&](const DriverTable& cu) {
    return cu.cuGraphAddExternalSemaphoresWaitNode(
        node, graph, dependencies, count,
        same_layout<const CUDA_EXT_SEM_WAIT_NODE_PARAMS*>(params));
  });
}

SLUICE_CUDART_API cudaError_t cudaGraphExternalSemaphoresWaitNodeGetParams(
    cudaGraphNode_t node, cudaExternalSemaphoreWaitNodeParams* params) {
  return with_context([&](const DriverTable& cu) {
    return cu.cuGraphExternalSemaphoresWaitNodeGetParams(
        node, same_layout<CUDA_EXT_SEM_WAIT_NODE_PARAMS*>(params));
  });
}

SLUICE_CUDART_API cudaError_t cudaGraphExternalSemaphoresWaitNodeSetParams(
    cudaGraphNode_t node, const cudaExternalSemaphoreWaitNodeParams* params) {
  return with_context([&](const DriverTable& cu) {
    return cu.cuGraphExternalSemaphoresWaitNodeSetParams(
        node, same_layout<const CUDA_EXT_SEM_WAIT_NODE_PARAMS*>(params));
  });
}

SLUICE_CUDART_API cudaError_t cudaGraphExecExternalSemaphoresWaitNodeSetParams(
    cudaGraphExec_t exec, cudaGraphNode_t node, const cudaExternalSemaphoreWaitNodeParams* params) {
  return with_context([&](const DriverTable& cu) {
    return cu.cuGraphExecExternalSemaphoresWaitNodeSetParams(
        exec, node, same_layout<const CUDA_EXT_SEM_WAIT_NODE_PARAMS*>(params));
  });
}

SLUICE_CUDART_API cudaError_t cudaGraphConditionalHandleCreate(cudaGraphConditionalHandle* handle,
                                                               cudaGraph_t graph,
                                                               unsigned default_value,
                                                               unsigned flags) {
  return with_current([&](const DriverTable& cu, CUcontext context) {
    return cu.cuGraphConditionalHandleCreate(same_layout<CUgraphConditionalHandle*>(handle), graph,
                                             context, default_value, flags);
  });
}

namespace {

cudaError_t to_driver_node(const DriverTable& cu, CUcontext context,
                           const cudaGraphNodeParams& from, CUgraphNodeParams* to) {
  // Most kinds have the same parameters under another name; three name kernels and contexts.
  static_assert(sizeof from == sizeof *to);
  std::memcpy(to, &from, sizeof *to);
  switch (from.type) {
    case cudaGraphNodeTypeKernel: {
      to->kernel = {};
      const cudaKernelNodeParams params = {
          .func = from.kernel.func,
          .gridDim = from.kernel.gridDim,
          .blockDim = from.kernel.blockDim,
          .sharedMemBytes = from.kernel.sharedMemBytes,
          .kernelParams = from.kernel.kernelParams,
          .extra = from.kernel.extra,
      };
      CUDA_KERNEL_NODE_PARAMS kernel;
      if (cudaError_t error = to_driver_kernel(cu, params, &kernel); error != cudaSuccess)
        return error;
      static_assert(sizeof kernel <= sizeof to->kernel);
      std::memcpy(&to->kernel, &kernel, sizeof kernel);
      return cudaSuccess;
    }
    case cudaGraphNodeTypeMemcpy:
      to->memcpy = {};
      to->memcpy.flags = from.memcpy.flags;
      to->memcpy.copyCtx = context;
      return to_driver_copy(cu, from.memcpy.copyParams, &to->memcpy.copyParams);
    case cudaGraphNodeTypeMemset:
      to->memset.ctx = context;
      return cudaSuccess;
    case cudaGraphNodeTypeConditional:
      to->conditional.ctx = context;
      return cudaSuccess;
    default:
      return cudaSuccess;
  }
}

/// What the driver filled in: the graphs of a condition, the address of an allocation.
void take_results(const CUgraphNodeParams& from, cudaGraphNodeParams* to) {
  if (to->type == cudaGraphNodeTypeConditional)
    to->conditional.phGraph_out = from.conditional.phGraph_out;
  if (to->type == cudaGraphNodeTypeMemAlloc) to->alloc.dptr = pointer(from.alloc.dptr);
}

template <class Body>
cudaError_t with_node(cudaGraphNodeParams* params, Body&& body) {
  if (params == nullptr) return record(cudaErrorInvalidValue);
  return with_current([&](const DriverTable& cu, CUcontext context) {
    CUgraphNodeParams to;
    if (cudaError_t error = to_driver_node(cu, context, *params, &to); error != cudaSuccess)
      return error;
    const CUresult result = body(cu, &to);
    if (result == CUDA_SUCCESS) take_results(to, params);
    return to_runtime(result);
  });
}

}  // namespace

SLUICE_CUDART_API cudaError_t cudaGraphAddNode_v2(cudaGraphNode_t* node, cudaGraph_t graph,
                                                  const cudaGraphNode_t* dependencies,
                                                  const cudaGraphEdgeData* edges, std::size_t count,
                                                  cudaGraphNodeParams* params) {
  return with_node(params, [&](const DriverTable& cu, CUgraphNodeParams* to) {
    return cu.cuGraphAddNode_v2(node, graph, dependencies,
                                same_layout<const CUgraphEdgeData*>(edges), count, to);
  });
}

SLUICE_CUDART_API cudaError_t cudaGraphNodeSetParams(cudaGraphNode_t node,
                                                     cudaGraphNodeParams* params) {
  return with_node(params, [&](const DriverTable& cu, CUgraphNodeParams* to) {
    return cu.cuGraphNodeSetParams(node, to);
  });
}

SLUICE_CUDART_API cudaError_t cudaGraphExecNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                         cudaGraphNodeParams* params) {
  return with_node(params, [&](const DriverTable& cu, CUgraphNodeParams* to) {
    return cu.cuGraphExecNodeSetParams(exec, node, to);
  });
}
