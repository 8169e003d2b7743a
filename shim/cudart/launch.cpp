// Kernel launches.
#include "shim/cudart/launch.h"

#include <cstring>

using namespace sluice::cudart;
using sluice::DriverTable;

namespace sluice::cudart {

bool exceeds_device(const DriverTable& cu, const dim3& grid, const dim3& block) noexcept {
  struct Limit {
    std::uint64_t value;
    CUdevice_attribute attribute;
  };
  const std::uint64_t threads = std::uint64_t{block.x} * block.y * block.z;
  const Limit limits[] = {{grid.x, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X},
                          {grid.y, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y},
                          {grid.z, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z},
                          {block.x, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X},
                          {block.y, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y},
                          {block.z, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z},
                          {threads, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK}};
  CUdevice device = 0;
  if (cu.cuCtxGetDevice(&device) != CUDA_SUCCESS) return false;
  for (const Limit& limit : limits) {
    int most = 0;
    if (limit.value == 0) return true;
    if (cu.cuDeviceGetAttribute(&most, limit.attribute, device) == CUDA_SUCCESS &&
        limit.value > static_cast<std::uint64_t>(most))
      return true;
  }
  return false;
}

cudaError_t launch_error(const DriverTable& cu, CUresult result, const dim3& grid,
                         const dim3& block) noexcept {
  if (result == CUDA_SUCCESS) return cudaSuccess;
  // The driver says "invalid value" for a shape that the device cannot run; this API has a name.
  if (result == CUDA_ERROR_INVALID_VALUE && exceeds_device(cu, grid, block))
    return cudaErrorInvalidConfiguration;
  return to_runtime(result);
}

}  // namespace sluice::cudart

namespace {

cudaError_t launch(const DriverTable& cu, CUkernel kernel, const dim3& grid, const dim3& block,
                   void** args, std::size_t shared_bytes, cudaStream_t stream) {
  if (shared_bytes > UINT32_MAX) return cudaErrorInvalidValue;
  CUresult result =
      cu.cuLaunchKernel(to_function(kernel), grid.x, grid.y, grid.z, block.x, block.y, block.z,
                        static_cast<unsigned>(shared_bytes), stream, args, nullptr);
  return launch_error(cu, result, grid, block);
}

}  // namespace

SLUICE_CUDART_API cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block,
                                               void** args, std::size_t shared_bytes,
                                               cudaStream_t stream) {
  return with_context([&](const DriverTable& cu) {
    CUkernel kernel = nullptr;
    cudaError_t error = registry().kernel(cu, function, &kernel);
    return error == cudaSuccess ? launch(cu, kernel, grid, block, args, shared_bytes, stream)
                                : error;
  });
}

SLUICE_CUDART_API cudaError_t __cudaLaunchKernel(cudaKernel_t handle, dim3 grid, dim3 block,
                                                 void** args, std::size_t shared_bytes,
                                                 cudaStream_t stream) {
  return with_context([&](const DriverTable& cu) {
    CUkernel kernel = nullptr;
    cudaError_t error = registry().launchable(cu, handle, &kernel);
    return error == cudaSuccess ? launch(cu, kernel, grid, block, args, shared_bytes, stream)
                                : error;
  });
}

SLUICE_CUDART_API cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t handle, dim3 grid, dim3 block,
                                                      void** args, std::size_t shared_bytes,
                                                      cudaStream_t stream) {
  return __cudaLaunchKernel(handle, grid, block, args, shared_bytes,
                            stream != nullptr ? stream : cudaStreamPerThread);
}

SLUICE_CUDART_API cudaError_t cudaLaunchCooperativeKernel(const void* function, dim3 grid,
                                                          dim3 block, void** args,
                                                          std::size_t shared_bytes,
                                                          cudaStream_t stream) {
  return with_context([&](const DriverTable& cu) {
    CUkernel kernel = nullptr;
    if (cudaError_t error = registry().kernel(cu, function, &kernel); error != cudaSuccess)
      return error;
    if (shared_bytes > UINT32_MAX) return cudaErrorInvalidValue;
    CUresult result =
        cu.cuLaunchCooperativeKernel(to_function(kernel), grid.x, grid.y, grid.z, block.x, block.y,
                                     block.z, static_cast<unsigned>(shared_bytes), stream, args);
    return launch_error(cu, result, grid, block);
  });
}

namespace sluice::cudart {

CUlaunchConfig to_driver_config(const cudaLaunchConfig_t& config) noexcept {
  CUlaunchConfig to{};
  to.gridDimX = config.gridDim.x;
  to.gridDimY = config.gridDim.y;
  to.gridDimZ = config.gridDim.z;
  to.blockDimX = config.blockDim.x;
  to.blockDimY = config.blockDim.y;
  to.blockDimZ = config.blockDim.z;
  to.sharedMemBytes = static_cast<unsigned>(config.dynamicSmemBytes);
  to.hStream = config.stream;
  to.attrs = same_layout<CUlaunchAttribute*>(config.attrs);
  to.numAttrs = config.numAttrs;
  return to;
}

}  // namespace sluice::cudart

SLUICE_CUDART_API cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config,
                                                  const void* function, void** args) {
  if (config == nullptr) return record(cudaErrorInvalidConfiguration);
  return with_context([&](const DriverTable& cu) {
    CUkernel kernel = nullptr;
    if (cudaError_t error = registry().kernel(cu, function, &kernel); error != cudaSuccess)
      return error;
    if (config->dynamicSmemBytes > UINT32_MAX) return cudaErrorInvalidValue;
    const CUlaunchConfig driver_config = to_driver_config(*config);
    CUresult result = cu.cuLaunchKernelEx(&driver_config, to_function(kernel), args, nullptr);
    return launch_error(cu, result, config->gridDim, config->blockDim);
  });
}

SLUICE_CUDART_API cudaError_t cudaLaunchKernelExC_ptsz(const cudaLaunchConfig_t* config,
                                                       const void* function, void** args) {
  if (config == nullptr) return record(cudaErrorInvalidConfiguration);
  cudaLaunchConfig_t own = *config;
  if (own.stream == nullptr) own.stream = cudaStreamPerThread;
  return cudaLaunchKernelExC(&own, function, args);
}
