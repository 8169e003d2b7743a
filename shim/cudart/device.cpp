// Devices and their primary contexts: choosing, flags, limits, reset, synchronise.
#include "shim/cudart/runtime.h"

#include <algorithm>
#include <cstring>

using namespace sluice::cudart;
using sluice::DriverTable;

SLUICE_CUDART_API cudaError_t cudaGetDeviceCount(int* count) {
  if (count == nullptr) return record(cudaErrorInvalidValue);
  *count = 0;
  return with_driver([&](const DriverTable&) {
    *count = runtime().device_count();
    return cudaSuccess;
  });
}

SLUICE_CUDART_API cudaError_t cudaSetDevice(int device) {
  return with_driver([&](const DriverTable& cu) { return runtime().select(cu, device); });
}

SLUICE_CUDART_API cudaError_t cudaGetDevice(int* device) {
  if (device == nullptr) return record(cudaErrorInvalidValue);
  return with_driver([&](const DriverTable& cu) {
    *device = runtime().current_ordinal(cu);
    return cudaSuccess;
  });
}

SLUICE_CUDART_API cudaError_t cudaSetValidDevices(int* devices, int count) {
  if (count < 0 || (count > 0 && devices == nullptr)) return record(cudaErrorInvalidValue);
  return with_driver([&](const DriverTable&) { return runtime().set_valid(devices, count); });
}

SLUICE_CUDART_API cudaError_t cudaInitDevice(int device, unsigned device_flags, unsigned flags) {
  return with_device(device, [&](const DriverTable& cu, CUdevice handle) {
    if ((flags & cudaInitDeviceFlagsAreValid) != 0)
      if (CUresult result = cu.cuDevicePrimaryCtxSetFlags_v2(handle, device_flags);
          result != CUDA_SUCCESS)
        return to_runtime(result);
    CUcontext context = nullptr;
    return runtime().primary(cu, device, &context);
  });
}

SLUICE_CUDART_API cudaError_t cudaSetDeviceFlags(unsigned flags) {
  return with_driver([&](const DriverTable& cu) {
    CUdevice device = 0;
    cudaError_t error = runtime().device(runtime().current_ordinal(cu), &device);
    // Pinned memory is mapped without asking; the driver API no longer knows the flag.
    return error == cudaSuccess ? to_runtime(cu.cuDevicePrimaryCtxSetFlags_v2(
                                      device, flags & ~unsigned{cudaDeviceMapHost}))
                                : error;
  });
}

SLUICE_CUDART_API cudaError_t cudaGetDeviceFlags(unsigned* flags) {
  if (flags == nullptr) return record(cudaErrorInvalidValue);
  return with_driver([&](const DriverTable& cu) {
    CUcontext context = nullptr;
    CUdevice device = 0;
    int is_active = 0;
    CUresult result = cu.cuCtxGetCurrent(&context);
    if (result == CUDA_SUCCESS && context != nullptr) {
      result = cu.cuCtxGetFlags(flags);
    } else if (result == CUDA_SUCCESS) {
      (void)runtime().device(runtime().current_ordinal(cu), &device);
      result = cu.cuDevicePrimaryCtxGetState(device, flags, &is_active);
    }
    if (result == CUDA_SUCCESS) *flags |= cudaDeviceMapHost;
    return result;
  });
}

SLUICE_CUDART_API cudaError_t cudaDeviceReset() {
  const cudaError_t error = with_driver(
      [](const DriverTable& cu) { return runtime().reset(cu, runtime().current_ordinal(cu)); });
  if (error == cudaSuccess) thread_state().last_error = cudaSuccess;
  return error;
}

SLUICE_CUDART_API cudaError_t cudaDeviceSynchronize() {
  return with_context([](const DriverTable& cu) { return cu.cuCtxSynchronize(); });
}

SLUICE_CUDART_API cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute,
                                                     int device) {
  if (value == nullptr) return record(cudaErrorInvalidValue);
  return with_device(device, [&](const DriverTable& cu, CUdevice handle) {
    return cu.cuDeviceGetAttribute(value, static_cast<CUdevice_attribute>(attribute), handle);
  });
}

SLUICE_CUDART_API cudaError_t cudaDeviceGetPCIBusId(char* id, int bytes, int device) {
  return with_device(device, [&](const DriverTable& cu, CUdevice handle) {
    return cu.cuDeviceGetPCIBusId(id, bytes, handle);
  });
}

SLUICE_CUDART_API cudaError_t cudaDeviceGetByPCIBusId(int* device, const char* id) {
  if (device == nullptr || id == nullptr) return record(cudaErrorInvalidValue);
  return with_driver([&](const DriverTable& cu) {
    CUdevice handle = 0;
    if (CUresult result = cu.cuDeviceGetByPCIBusId(&handle, id); result != CUDA_SUCCESS)
      return to_runtime(result);
    *device = runtime().ordinal_of(handle);
    return *device >= 0 ? cudaSuccess : cudaErrorInvalidDevice;
  });
}

SLUICE_CUDART_API cudaError_t cudaDeviceSetLimit(cudaLimit limit, std::size_t value) {
  return with_context(
      [&](const DriverTable& cu) { return cu.cuCtxSetLimit(static_cast<CUlimit>(limit), value); });
}

SLUICE_CUDART_API cudaError_t cudaDeviceGetLimit(std::size_t* value, cudaLimit limit) {
  return with_context(
      [&](const DriverTable& cu) { return cu.cuCtxGetLimit(value, static_cast<CUlimit>(limit)); });
}

SLUICE_CUDART_API cudaError_t cudaDeviceGetCacheConfig(cudaFuncCache* config) {
  return with_context([&](const DriverTable& cu) {
    return cu.cuCtxGetCacheConfig(reinterpret_cast<CUfunc_cache*>(config));
  });
}

SLUICE_CUDART_API cudaError_t cudaDeviceSetCacheConfig(cudaFuncCache config) {
  return with_context([&](const DriverTable& cu) {
    return cu.cuCtxSetCacheConfig(static_cast<CUfunc_cache>(config));
  });
}

SLUICE_CUDART_API cudaError_t cudaDeviceGetSharedMemConfig(cudaSharedMemConfig* config) {
  return with_context([&](const DriverTable& cu) {
    return cu.cuCtxGetSharedMemConfig(reinterpret_cast<CUsharedconfig*>(config));
  });
}

SLUICE_CUDART_API cudaError_t cudaDeviceSetSharedMemConfig(cudaSharedMemConfig config) {
  return with_context([&](const DriverTable& cu) {
    return cu.cuCtxSetSharedMemConfig(static_cast<CUsharedconfig>(config));
  });
}

SLUICE_CUDART_API cudaError_t cudaDeviceGetHostAtomicCapabilities(
    unsigned* capabilities, const cudaAtomicOperation* operations, unsigned count, int device) {
  return with_device(device, [&](const DriverTable& cu, CUdevice handle) {
    return cu.cuDeviceGetHostAtomicCapabilities(
        capabilities, same_layout<const CUatomicOperation*>(operations), count, handle);
  });
}

SLUICE_CUDART_API cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return with_context(
      [&](const DriverTable& cu) { return cu.cuCtxGetStreamPriorityRange(least, greatest); });
}

SLUICE_CUDART_API cudaError_t cudaCtxResetPersistingL2Cache() {
  return with_context([](const DriverTable& cu) { return cu.cuCtxResetPersistingL2Cache(); });
}

SLUICE_CUDART_API cudaError_t cudaDeviceFlushGPUDirectRDMAWrites(
    cudaFlushGPUDirectRDMAWritesTarget target, cudaFlushGPUDirectRDMAWritesScope scope) {
  return with_context([&](const DriverTable& cu) {
    return cu.cuFlushGPUDirectRDMAWrites(static_cast<CUflushGPUDirectRDMAWritesTarget>(target),
                                         static_cast<CUflushGPUDirectRDMAWritesScope>(scope));
  });
}

SLUICE_CUDART_API cudaError_t cudaDriverGetVersion(int* version) {
  if (version == nullptr) return record(cudaErrorInvalidValue);
  *version = 0;  // the documented answer where there is no driver; not an error
  const DriverTable* cu = nullptr;
  if (runtime().load(&cu) != cudaSuccess) return cudaSuccess;
  return record(to_runtime(cu->cuDriverGetVersion(version)));
}

SLUICE_CUDART_API cudaError_t cudaProfilerStart() {
  return with_context([](const DriverTable& cu) { return cu.cuProfilerStart(); });
}

SLUICE_CUDART_API cudaError_t cudaProfilerStop() {
  return with_context([](const DriverTable& cu) { return cu.cuProfilerStop(); });
}
