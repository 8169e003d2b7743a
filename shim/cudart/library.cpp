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
