// Code loaded at run time, and driver functions by name.
#include "shim/cudart/registry.h"

using namespace sluice::cudart;
using sluice::DriverTable;

SLUICE_CUDART_API cudaError_t cudaLibraryLoadData(cudaLibrary_t* library, const void* code,
                                                  cudaJitOption* jit_options, void** jit_values,
                                                  unsigned jit_count,
                                                  cudaLibraryOption* library_options,
                                                  void** library_values, unsigned library_count) {
  return with_context([&](const DriverTable& cu) {
    return cu.cuLibraryLoadData(library, code, same_layout<CUjit_option*>(jit_options), jit_values,
                                jit_count, same_layout<CUlibraryOption*>(library_options),
                                library_values, library_count);
  });
}

SLUICE_CUDART_API cudaError_t cudaLibraryLoadFromFile(cudaLibrary_t* library, const char* path,
                                                      cudaJitOption* jit_options, void** jit_values,
                                                      unsigned jit_count,
                                                      cudaLibraryOption* library_options,
                                                      void** library_values,
                                                      unsigned library_count) {
  return with_context([&](const DriverTable& cu) {
    return cu.cuLibraryLoadFromFile(
        library, path, same_layout<CUjit_option*>(jit_options), jit_values, jit_count,
        same_layout<CUlibraryOption*>(library_options), library_values, library_count);
  });
}

SLUICE_CUDART_API cudaError_t cudaLibraryUnload(cudaLibrary_t library) {
  return with_context([&](const DriverTable& cu) { return cu.cuLibraryUnload(library); });
}

SLUICE_CUDART_API cudaError_t cudaLibraryGetKernel(cudaKernel_t* kernel, cudaLibrary_t library,
                                                   const char* name) {
  if (kernel == nullptr) return record(cudaErrorInvalidValue);
  return with_context([&](const DriverTable& cu) {
    CUresult result = cu.cuLibraryGetKernel(kernel, library, name);
    if (result == CUDA_SUCCESS) registry().remember_handle(*kernel);
    return result;
  });
}

SLUICE_CUDART_API cudaError_t cudaLibraryGetKernelCount(unsigned* count, cudaLibrary_t library) {
  return with_context(
      [&](const DriverTable& cu) { return cu.cuLibraryGetKernelCount(count, library); });
}

SLUICE_CUDART_API cudaError_t cudaLibraryEnumerateKernels(cudaKernel_t* kernels, unsigned count,
                                                          cudaLibrary_t library) {
  return with_context([&](const DriverTable& cu) {
    CUresult result = cu.cuLibraryEnumerateKernels(kernels, count, library);
    if (result == CUDA_SUCCESS)
      for (unsigned i = 0; i < count; ++i) registry().remember_handle(kernels[i]);
    return result;
  });
}

SLUICE_CUDART_API cudaError_t cudaLibraryGetGlobal(void** memory, std::size_t* bytes,
                                                   cudaLibrary_t library, const char* name) {
  return with_context([&](const DriverTable& cu) {
    return cu.cuLibraryGetGlobal(reinterpret_cast<CUdeviceptr*>(memory), bytes, library, name);
  });
}

SLUICE_CUDART_API cudaError_t cudaLibraryGetManaged(void** memory, std::size_t* bytes,
                                                    cudaLibrary_t library, const char* name) {
  return with_context([&](const DriverTable& cu) {
    return cu.cuLibraryGetManaged(reinterpret_cast<CUdeviceptr*>(memory), bytes, library, name);
  });
}

SLUICE_CUDART_API cudaError_t cudaLibraryGetUnifiedFunction(void** function, cudaLibrary_t library,
                                                            const char* symbol) {
  return with_context([&](const DriverTable& cu) {
    return cu.cuLibraryGetUnifiedFunction(function, library, symbol);
  });
}

namespace {

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

}  // namespace

SLUICE_CUDART_API cudaError_t cudaGetDriverEntryPoint(const char* symbol, void** function,
                                                      unsigned long long flags,
                                                      cudaDriverEntryPointQueryResult* status) {
  return find_driver_function(symbol, function, CUDART_VERSION, flags, status);
}

SLUICE_CUDART_API cudaError_t
cudaGetDriverEntryPoint_ptsz(const char* symbol, void** function, unsigned long long flags,
                             cudaDriverEntryPointQueryResult* status) {
  return find_driver_function(symbol, function, CUDART_VERSION, per_thread_flags(flags), status);
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
