// Kernels as objects: attributes, handles, occupancy.
#include "shim/cudart/launch.h"

using namespace sluice::cudart;
using sluice::DriverTable;

namespace {

/// Runs `body(driver, function)` for the kernel behind a host stub, in the current context.
template <class Body>
cudaError_t with_function(const void* host, Body&& body) {
  return with_context([&](const DriverTable& cu) {
    CUkernel kernel = nullptr;
    CUfunction function = nullptr;
    if (cudaError_t error = registry().kernel(cu, host, &kernel); error != cudaSuccess)
      return error;
    if (CUresult result = cu.cuKernelGetFunction(&function, kernel); result != CUDA_SUCCESS)
      return to_runtime(result);
    return to_runtime(body(cu, function));
  });
}

CUresult get(const DriverTable& cu, CUfunction function, CUfunction_attribute attribute,
             int* value) {
  return cu.cuFuncGetAttribute(value, attribute, function);
}

CUresult fill_attributes(const DriverTable& cu, CUfunction function, cudaFuncAttributes* to) {
  int shared = 0;
  int constant = 0;
  int local = 0;
  struct Field {
    int* value;
    CUfunction_attribute attribute;
  };
  const Field fields[] = {
      {&shared, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES},
      {&constant, CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES},
      {&local, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES},
      {&to->maxThreadsPerBlock, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK},
      {&to->numRegs, CU_FUNC_ATTRIBUTE_NUM_REGS},
      {&to->ptxVersion, CU_FUNC_ATTRIBUTE_PTX_VERSION},
      {&to->binaryVersion, CU_FUNC_ATTRIBUTE_BINARY_VERSION},
      {&to->cacheModeCA, CU_FUNC_ATTRIBUTE_CACHE_MODE_CA},
      {&to->maxDynamicSharedSizeBytes, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES},
      {&to->preferredShmemCarveout, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT},
      {&to->clusterDimMustBeSet, CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET},
      {&to->requiredClusterWidth, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH},
      {&to->requiredClusterHeight, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT},
      {&to->requiredClusterDepth, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH},
      {&to->clusterSchedulingPolicyPreference,
       CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE},
      {&to->nonPortableClusterSizeAllowed, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED},
  };
  *to = {};
  for (const Field& field : fields)
    if (CUresult result = get(cu, function, field.attribute, field.value); result != CUDA_SUCCESS)
      return result;
  to->sharedSizeBytes = static_cast<std::size_t>(shared);
  to->constSizeBytes = static_cast<std::size_t>(constant);
  to->localSizeBytes = static_cast<std::size_t>(local);
  return CUDA_SUCCESS;
}

}  // namespace

SLUICE_CUDART_FORM(12, cudaFuncGetAttributes)
(cudaFuncAttributes* attributes, const void* function) {
  if (attributes == nullptr) return record(cudaErrorInvalidValue);
  return with_function(function, [&](const DriverTable& cu, CUfunction handle) {
    return fill_attributes(cu, handle, attributes);
  });
}

SLUICE_CUDART_API cudaError_t cudaFuncSetAttribute(const void* function,
                                                   cudaFuncAttribute attribute, int value) {
  return with_function(function, [&](const DriverTable& cu, CUfunction handle) {
    return cu.cuFuncSetAttribute(handle, static_cast<CUfunction_attribute>(attribute), value);
  });
}

SLUICE_CUDART_API cudaError_t cudaFuncSetCacheConfig(const void* function, cudaFuncCache config) {
  return with_function(function, [&](const DriverTable& cu, CUfunction handle) {
    return cu.cuFuncSetCacheConfig(handle, static_cast<CUfunc_cache>(config));
  });
}

SLUICE_CUDART_API cudaError_t cudaFuncSetSharedMemConfig(const void* function,
                                                         cudaSharedMemConfig config) {
  return with_function(function, [&](const DriverTable& cu, CUfunction handle) {
    return cu.cuFuncSetSharedMemConfig(handle, static_cast<CUsharedconfig>(config));
  });
}

SLUICE_CUDART_API cudaError_t cudaFuncGetName(const char** name, const void* function) {
  return with_function(function, [&](const DriverTable& cu, CUfunction handle) {
    return cu.cuFuncGetName(name, handle);
  });
}

SLUICE_CUDART_API cudaError_t cudaFuncGetParamInfo(const void* function, std::size_t index,
                                                   std::size_t* offset, std::size_t* bytes) {
  return with_function(function, [&](const DriverTable& cu, CUfunction handle) {
    return cu.cuFuncGetParamInfo(handle, index, offset, bytes);
  });
}

SLUICE_CUDART_API cudaError_t cudaGetFuncBySymbol(cudaFunction_t* function, const void* symbol) {
  if (function == nullptr) return record(cudaErrorInvalidValue);
  return with_function(symbol, [&](const DriverTable&, CUfunction handle) {
    *function = handle;
    registry().remember_handle(handle);
    return CUDA_SUCCESS;
  });
}

SLUICE_CUDART_API cudaError_t cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  if (kernel == nullptr) return record(cudaErrorInvalidValue);
  return with_context([&](const DriverTable& cu) {
    cudaError_t error = registry().kernel(cu, function, kernel);
    if (error == cudaSuccess) registry().remember_handle(*kernel);
    return error;
  });
}

SLUICE_CUDART_API cudaError_t cudaKernelSetAttributeForDevice(cudaKernel_t kernel,
                                                              cudaFuncAttribute attribute,
                                                              int value, int device) {
  return with_device(device, [&](const DriverTable& cu, CUdevice handle) {
    return cu.cuKernelSetAttribute(static_cast<CUfunction_attribute>(attribute), value, kernel,
                                   handle);
  });
}

SLUICE_CUDART_API cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int* blocks, const void* function, int block_size, std::size_t shared_bytes, unsigned flags) {
  return with_function(function, [&](const DriverTable& cu, CUfunction handle) {
    return cu.cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, handle, block_size,
                                                                   shared_bytes, flags);
  });
}

SLUICE_CUDART_API cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(
    int* blocks, const void* function, int block_size, std::size_t shared_bytes) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, block_size,
                                                                shared_bytes, 0);
}

SLUICE_CUDART_API cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(std::size_t* shared_bytes,
                                                                        const void* function,
                                                                        int blocks,
                                                                        int block_size) {
  return with_function(function, [&](const DriverTable& cu, CUfunction handle) {
    return cu.cuOccupancyAvailableDynamicSMemPerBlock(shared_bytes, handle, blocks, block_size);
  });
}

SLUICE_CUDART_API cudaError_t cudaOccupancyMaxPotentialClusterSize(
    int* size, const void* function, const cudaLaunchConfig_t* config) {
  if (config == nullptr) return record(cudaErrorInvalidValue);
  return with_function(function, [&](const DriverTable& cu, CUfunction handle) {
    const CUlaunchConfig driver_config = to_driver_config(*config);
    return cu.cuOccupancyMaxPotentialClusterSize(size, handle, &driver_config);
  });
}

SLUICE_CUDART_API cudaError_t cudaOccupancyMaxActiveClusters(int* clusters, const void* function,
                                                             const cudaLaunchConfig_t* config) {
  if (config == nullptr) return record(cudaErrorInvalidValue);
  return with_function(function, [&](const DriverTable& cu, CUfunction handle) {
    const CUlaunchConfig driver_config = to_driver_config(*config);
    return cu.cuOccupancyMaxActiveClusters(clusters, handle, &driver_config);
  });
}
