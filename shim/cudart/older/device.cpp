// Functions that CUDA 13 removed or gave another struct.
#include "shim/cudart/older/layouts.h"
#include "shim/cudart/runtime.h"

#include <cstring>

using namespace sluice::cudart;

// The names of before CUDA 4, kept until 13: the same functions of the device.
SLUICE_CUDART_API cudaError_t cudaThreadExit() {
  return cudaDeviceReset();
}
SLUICE_CUDART_API cudaError_t cudaThreadSynchronize() {
  return cudaDeviceSynchronize();
}
SLUICE_CUDART_API cudaError_t cudaThreadSetLimit(cudaLimit limit, std::size_t value) {
  return cudaDeviceSetLimit(limit, value);
}
SLUICE_CUDART_API cudaError_t cudaThreadGetLimit(std::size_t* value, cudaLimit limit) {
  return cudaDeviceGetLimit(value, limit);
}
SLUICE_CUDART_API cudaError_t cudaThreadGetCacheConfig(cudaFuncCache* config) {
  return cudaDeviceGetCacheConfig(config);
}
SLUICE_CUDART_API cudaError_t cudaThreadSetCacheConfig(cudaFuncCache config) {
  return cudaDeviceSetCacheConfig(config);
}

// Every device that CUDA 11 supports has double precision: there is nothing to convert.
SLUICE_CUDART_API cudaError_t cudaSetDoubleForDevice(double*) {
  return cudaSuccess;
}
SLUICE_CUDART_API cudaError_t cudaSetDoubleForHost(double*) {
  return cudaSuccess;
}

SLUICE_CUDART_API cudaError_t cudaEventElapsedTime_v2(float* ms, cudaEvent_t start,
                                                      cudaEvent_t end) {
  return cudaEventElapsedTime(ms, start, end);
}

SLUICE_CUDART_FORM(12, cudaFuncGetAttributes)(cudaFuncAttributes* attributes, const void* function);

SLUICE_CUDART_FORM(11, cudaFuncGetAttributes)
(v11::FuncAttributes* attributes, const void* function) {
  if (attributes == nullptr) return record(cudaErrorInvalidValue);
  cudaFuncAttributes whole;
  if (cudaError_t error = sluice_v12_cudaFuncGetAttributes(&whole, function); error != cudaSuccess)
    return error;
  // CUDA 12 only added fields at the end.
  static_assert(offsetof(cudaFuncAttributes, preferredShmemCarveout) ==
                offsetof(v11::FuncAttributes, preferredShmemCarveout));
  std::memcpy(attributes, &whole, sizeof *attributes);
  return cudaSuccess;
}
