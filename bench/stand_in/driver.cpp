// A libcuda.so.1 that costs nothing: device memory is host memory, every command is over when its
// call returns, a launch does nothing. What a program takes longer through Sluice than on this is
// what Sluice costs. For sluice-perf only: it checks hardly anything.
#include <cuda.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#define STAND_IN extern "C" __attribute__((visibility("default"))) CUresult CUDAAPI

namespace {

constexpr std::size_t kMemoryBytes = std::size_t{16} << 30;
constexpr std::size_t kPageBytes = 4096;
constexpr int kKernelParams = 4;

/// Handles are addresses of nothing.
template <class Handle>
CUresult make(Handle* out) {
  static char objects;
  *out = reinterpret_cast<Handle>(&objects);
  return CUDA_SUCCESS;
}

CUresult allocate(void** out, std::size_t bytes) {
  *out = std::aligned_alloc(kPageBytes, (bytes + kPageBytes - 1) & ~(kPageBytes - 1));
  return *out != nullptr ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

thread_local CUcontext t_current = nullptr;

int attribute(CUdevice_attribute which) {
  switch (which) {
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y:
      return 1024;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z:
      return 64;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X:
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z:
      return 65535;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK:
      return 49152;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
      return 32;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      return 9;
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
      return 1;
    default:
      return 0;
  }
}

}  // namespace

// ---- devices and contexts
STAND_IN cuInit(unsigned) {
  return CUDA_SUCCESS;
}
STAND_IN cuDriverGetVersion(int* out) {
  *out = CUDA_VERSION;
  return CUDA_SUCCESS;
}
STAND_IN cuDeviceGetCount(int* out) {
  *out = 1;
  return CUDA_SUCCESS;
}
STAND_IN cuDeviceGet(CUdevice* out, int) {
  *out = 0;
  return CUDA_SUCCESS;
}
STAND_IN cuDeviceGetName(char* out, int bytes, CUdevice) {
  std::snprintf(out, static_cast<std::size_t>(bytes), "stand-in");
  return CUDA_SUCCESS;
}
STAND_IN cuDeviceTotalMem_v2(std::size_t* out, CUdevice) {
  *out = kMemoryBytes;
  return CUDA_SUCCESS;
}
STAND_IN cuDeviceGetAttribute(int* out, CUdevice_attribute which, CUdevice) {
  *out = attribute(which);
  return CUDA_SUCCESS;
}
STAND_IN cuDevicePrimaryCtxRetain(CUcontext* out, CUdevice) {
  return make(out);
}
STAND_IN cuDevicePrimaryCtxRelease_v2(CUdevice) {
  return CUDA_SUCCESS;
}
STAND_IN cuDevicePrimaryCtxSetFlags_v2(CUdevice, unsigned) {
  return CUDA_SUCCESS;
}
STAND_IN cuCtxSetCurrent(CUcontext context) {
  t_current = context;
  return CUDA_SUCCESS;
}
STAND_IN cuCtxGetCurrent(CUcontext* out) {
  *out = t_current;
  return CUDA_SUCCESS;
}
STAND_IN cuCtxPushCurrent_v2(CUcontext context) {
  t_current = context;
  return CUDA_SUCCESS;
}
STAND_IN cuCtxPopCurrent_v2(CUcontext* out) {
  *out = t_current;
  return CUDA_SUCCESS;
}
STAND_IN cuCtxSynchronize() {
  return CUDA_SUCCESS;
}
STAND_IN cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode*) {
  return CUDA_SUCCESS;
}

// ---- memory
STAND_IN cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  *free = *total = kMemoryBytes;
  return CUDA_SUCCESS;
}
STAND_IN cuMemAlloc_v2(CUdeviceptr* out, std::size_t bytes) {
  void* memory = nullptr;
  const CUresult result = allocate(&memory, bytes);
  *out = reinterpret_cast<CUdeviceptr>(memory);
  return result;
}
STAND_IN cuMemFree_v2(CUdeviceptr memory) {
  std::free(reinterpret_cast<void*>(memory));
  return CUDA_SUCCESS;
}
STAND_IN cuMemHostAlloc(void** out, std::size_t bytes, unsigned) {
  return allocate(out, bytes);
}
STAND_IN cuMemFreeHost(void* memory) {
  std::free(memory);
  return CUDA_SUCCESS;
}
STAND_IN cuMemHostRegister_v2(void*, std::size_t, unsigned) {
  return CUDA_SUCCESS;
}
STAND_IN cuMemHostUnregister(void*) {
  return CUDA_SUCCESS;
}
STAND_IN cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, std::size_t bytes, CUstream) {
  std::memcpy(reinterpret_cast<void*>(to), from, bytes);
  return CUDA_SUCCESS;
}
STAND_IN cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, std::size_t bytes, CUstream) {
  std::memcpy(to, reinterpret_cast<const void*>(from), bytes);
  return CUDA_SUCCESS;
}
STAND_IN cuMemcpyHtoD_v2(CUdeviceptr to, const void* from, std::size_t bytes) {
  return cuMemcpyHtoDAsync_v2(to, from, bytes, nullptr);
}
STAND_IN cuMemcpyDtoH_v2(void* to, CUdeviceptr from, std::size_t bytes) {
  return cuMemcpyDtoHAsync_v2(to, from, bytes, nullptr);
}

// ---- streams and events
STAND_IN cuStreamCreateWithPriority(CUstream* out, unsigned, int) {
  return make(out);
}
STAND_IN cuStreamDestroy_v2(CUstream) {
  return CUDA_SUCCESS;
}
STAND_IN cuStreamWaitEvent(CUstream, CUevent, unsigned) {
  return CUDA_SUCCESS;
}
STAND_IN cuEventCreate(CUevent* out, unsigned) {
  return make(out);
}
STAND_IN cuEventDestroy_v2(CUevent) {
  return CUDA_SUCCESS;
}
STAND_IN cuEventRecord(CUevent, CUstream) {
  return CUDA_SUCCESS;
}
STAND_IN cuEventQuery(CUevent) {
  return CUDA_SUCCESS;
}
STAND_IN cuEventSynchronize(CUevent) {
  return CUDA_SUCCESS;
}
STAND_IN cuEventElapsedTime_v2(float* out, CUevent, CUevent) {
  *out = 0;
  return CUDA_SUCCESS;
}

// ---- modules: one kernel, with kKernelParams pointers
STAND_IN cuModuleLoadDataEx(CUmodule* out, const void*, unsigned, CUjit_option*, void**) {
  return make(out);
}
STAND_IN cuModuleLoadData(CUmodule* out, const void*) {
  return make(out);
}
STAND_IN cuModuleUnload(CUmodule) {
  return CUDA_SUCCESS;
}
STAND_IN cuModuleGetFunction(CUfunction* out, CUmodule, const char*) {
  return make(out);
}
STAND_IN cuFuncGetParamInfo(CUfunction, std::size_t i, std::size_t* offset, std::size_t* size) {
  if (i >= kKernelParams) return CUDA_ERROR_INVALID_VALUE;
  *offset = i * sizeof(CUdeviceptr);
  if (size != nullptr) *size = sizeof(CUdeviceptr);
  return CUDA_SUCCESS;
}
STAND_IN cuFuncGetAttribute(int* out, CUfunction_attribute which, CUfunction) {
  *out = which == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? 1024 : 0;
  return CUDA_SUCCESS;
}
STAND_IN cuLaunchKernel(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                        unsigned, CUstream, void**, void**) {
  return CUDA_SUCCESS;
}
