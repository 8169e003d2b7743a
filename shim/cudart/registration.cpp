// The calls that nvcc's start-up code makes before main (crt/host_runtime.h), and the way a kernel
// call statement hands over its configuration.
#include "common/log.h"
#include "shim/cudart/registry.h"

#include <cstring>
#include <new>

using namespace sluice::cudart;

SLUICE_CUDART_API void** __cudaRegisterFatBinary(void* fat_cubin) {
  return reinterpret_cast<void**>(registry().add_image(fat_cubin));
}

SLUICE_CUDART_API void __cudaRegisterFatBinaryEnd(void**) {}

SLUICE_CUDART_API void __cudaUnregisterFatBinary(void** handle) {
  registry().remove_image(reinterpret_cast<Image*>(handle));
}

SLUICE_CUDART_API void __cudaRegisterFunction(void** handle, const char* host_function, char*,
                                              const char* device_name, int, uint3*, uint3*, dim3*,
                                              dim3*, int*) {
  registry().add_kernel(reinterpret_cast<Image*>(handle), host_function, device_name);
}

SLUICE_CUDART_API void __cudaRegisterVar(void** handle, char* host_variable, char*,
                                         const char* device_name, int, std::size_t bytes, int,
                                         int) {
  registry().add_variable(
      reinterpret_cast<Image*>(handle), host_variable,
      {.image = nullptr, .name = device_name, .bytes = bytes, .managed_pointer = nullptr});
}

SLUICE_CUDART_API void __cudaRegisterManagedVar(void** handle, void** host_pointer, char*,
                                                const char* device_name, int, std::size_t bytes,
                                                int, int) {
  registry().add_variable(
      reinterpret_cast<Image*>(handle), host_pointer,
      {.image = nullptr, .name = device_name, .bytes = bytes, .managed_pointer = host_pointer});
}

// Called before the host first touches a managed variable of the image.
SLUICE_CUDART_API char __cudaInitModule(void** handle) {
  const cudaError_t placed = with_context([&](const sluice::DriverTable& cu) {
    return registry().place_managed(cu, reinterpret_cast<Image*>(handle));
  });
  return placed == cudaSuccess ? 1 : 0;
}

SLUICE_CUDART_API unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block,
                                                       std::size_t shared_bytes,
                                                       CUstream_st* stream) {
  ThreadState& thread = thread_state();
  if (thread.call_depth >= kCallDepthMax) {
    SLUICE_LOG_ERROR("shim", "kernel launches are nested deeper than {} in one expression",
                     kCallDepthMax);
    record(cudaErrorLaunchMaxDepthExceeded);
    return 1;  // the call statement then skips the launch
  }
  new (thread.calls[thread.call_depth++]) CallConfiguration{grid, block, shared_bytes, stream};
  return 0;
}

SLUICE_CUDART_API cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block,
                                                         std::size_t* shared_bytes, void* stream) {
  ThreadState& thread = thread_state();
  if (thread.call_depth <= 0) return record(cudaErrorMissingConfiguration);
  CallConfiguration call;
  std::memcpy(static_cast<void*>(&call), thread.calls[--thread.call_depth], sizeof call);
  *grid = call.grid;
  *block = call.block;
  *shared_bytes = call.shared_bytes;
  std::memcpy(stream, &call.stream, sizeof call.stream);
  return cudaSuccess;
}

// The call statement ignores the result and keeps the handle for ever, so a kernel that cannot be
// loaded now gets a stand-in: the error belongs to the launch, and a later launch may succeed.
SLUICE_CUDART_API cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* host_function) {
  const sluice::DriverTable* cu = nullptr;
  cudaError_t error = runtime().bind(&cu);
  if (error == cudaSuccess) error = registry().kernel(*cu, host_function, kernel);
  if (error != cudaSuccess) *kernel = registry().deferred(host_function);
  return error;
}
