// What differs between runtime versions in number only.
#include "shim/cudart/runtime.h"

#include <algorithm>

// Written by CMake into each libcudart: the version it stands for. libsluice.so is of the newest.
extern "C" const int sluice_cudart_abi;

namespace sluice::cudart {
namespace {

std::atomic<int> g_served_major{INT32_MAX};

cudaError_t tell_version(int major, int* version) {
  if (version == nullptr) return record(cudaErrorInvalidValue);
  *version = runtime_version(major);
  return cudaSuccess;
}

cudaError_t find_driver_function(const char* symbol, void** function, unsigned version,
                                 unsigned long long flags,
                                 cudaDriverEntryPointQueryResult* status) {
  if (symbol == nullptr || function == nullptr) return record(cudaErrorInvalidValue);
  return with_driver([&](const DriverTable& cu) {
    CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SUCCESS;
    *function = nullptr;
    CUresult result =
        cu.cuGetProcAddress_v2(symbol, function, static_cast<int>(version), flags, &found);
    if (status != nullptr) *status = static_cast<cudaDriverEntryPointQueryResult>(found);
    // What the driver does not have is an answer (null and a status), not a failure of the call.
    return result == CUDA_ERROR_NOT_FOUND ? CUDA_SUCCESS : result;
  });
}

/// "The default" means per-thread default streams for callers compiled that way.
unsigned long long per_thread_flags(unsigned long long flags) {
  constexpr unsigned long long kPerThread = cudaEnablePerThreadDefaultStream;
  return flags == cudaEnableDefault ? kPerThread : flags;
}

unsigned version_of(int major) {
  return static_cast<unsigned>(runtime_version(major));
}

}  // namespace

int required_major() noexcept {
  return std::min(g_served_major.load(std::memory_order_relaxed), sluice_cudart_abi);
}

void serve_major(int major) noexcept {
  int served = g_served_major.load(std::memory_order_relaxed);
  while (major < served && !g_served_major.compare_exchange_weak(served, major)) {
  }
}

}  // namespace sluice::cudart

using namespace sluice::cudart;

SLUICE_CUDART_FORM(13, cudaRuntimeGetVersion)(int* version) {
  return tell_version(13, version);
}
SLUICE_CUDART_FORM(12, cudaRuntimeGetVersion)(int* version) {
  return tell_version(12, version);
}
SLUICE_CUDART_FORM(11, cudaRuntimeGetVersion)(int* version) {
  return tell_version(11, version);
}

SLUICE_CUDART_FORM(13, cudaGetDriverEntryPoint)
(const char* symbol, void** function, unsigned long long flags,
 cudaDriverEntryPointQueryResult* status) {
  return find_driver_function(symbol, function, version_of(13), flags, status);
}
SLUICE_CUDART_FORM(13, cudaGetDriverEntryPoint_ptsz)
(const char* symbol, void** function, unsigned long long flags,
 cudaDriverEntryPointQueryResult* status) {
  return find_driver_function(symbol, function, version_of(13), per_thread_flags(flags), status);
}
SLUICE_CUDART_FORM(12, cudaGetDriverEntryPoint)
(const char* symbol, void** function, unsigned long long flags,
 cudaDriverEntryPointQueryResult* status) {
  return find_driver_function(symbol, function, version_of(12), flags, status);
}
SLUICE_CUDART_FORM(12, cudaGetDriverEntryPoint_ptsz)
(const char* symbol, void** function, unsigned long long flags,
 cudaDriverEntryPointQueryResult* status) {
  return find_driver_function(symbol, function, version_of(12), per_thread_flags(flags), status);
}

namespace {

// CUDA 11 has no status: what the driver lacks is an error.
cudaError_t find_without_status(const char* symbol, void** function, unsigned long long flags) {
  cudaDriverEntryPointQueryResult status = cudaDriverEntryPointSuccess;
  const cudaError_t error = find_driver_function(symbol, function, version_of(11), flags, &status);
  if (error != cudaSuccess || *function != nullptr) return error;
  return record(cudaErrorSymbolNotFound);
}

}  // namespace

SLUICE_CUDART_FORM(11, cudaGetDriverEntryPoint)
(const char* symbol, void** function, unsigned long long flags) {
  return find_without_status(symbol, function, flags);
}
SLUICE_CUDART_FORM(11, cudaGetDriverEntryPoint_ptsz)
(const char* symbol, void** function, unsigned long long flags) {
  return find_without_status(symbol, function, per_thread_flags(flags));
}

SLUICE_CUDART_API cudaError_t cudaGetDriverEntryPointByVersion(
    const char* symbol, void** function, unsigned version, unsigned long long flags,
    cudaDriverEntryPointQueryResult* status) {
  return find_driver_function(symbol, function, version, flags, status);
}

SLUICE_CUDART_API cudaError_t cudaGetDriverEntryPointByVersion_ptsz(
    const char* symbol, void** function, unsigned version, unsigned long long flags,
    cudaDriverEntryPointQueryResult* status) {
  return find_driver_function(symbol, function, version, per_thread_flags(flags), status);
}
