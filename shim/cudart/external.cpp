// Memory and semaphores of other APIs (Vulkan, D3D, NvSci), imported by handle. The driver decides
// what can be imported; the structs are carried over field by field, because CUDA 13's are longer
// at their ends than those of programs built for CUDA 12.
#include "shim/cudart/array_format.h"
#include "shim/cudart/newest.h"
#include "shim/cudart/older/layouts.h"

#include <cstring>
#include <vector>

using namespace sluice::cudart;
using sluice::DriverTable;

namespace {

// Handles are the driver's under another type name.
CUexternalMemory to_driver(cudaExternalMemory_t memory) {
  return reinterpret_cast<CUexternalMemory>(memory);
}
CUexternalSemaphore to_driver(cudaExternalSemaphore_t semaphore) {
  return reinterpret_cast<CUexternalSemaphore>(semaphore);
}
const CUexternalSemaphore* to_driver(const cudaExternalSemaphore_t* semaphores) {
  return reinterpret_cast<const CUexternalSemaphore*>(semaphores);
}

}  // namespace

SLUICE_CUDART_API cudaError_t cudaImportExternalMemory(cudaExternalMemory_t* memory,
                                                       const cudaExternalMemoryHandleDesc* desc) {
  if (memory == nullptr || desc == nullptr) return record(cudaErrorInvalidValue);
  return with_context([&](const DriverTable& cu) {
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC to{};
    to.type = static_cast<CUexternalMemoryHandleType>(desc->type);
    static_assert(sizeof to.handle == sizeof desc->handle);
    std::memcpy(&to.handle, &desc->handle, sizeof to.handle);
    to.size = desc->size;
    to.flags = desc->flags;
    return cu.cuImportExternalMemory(reinterpret_cast<CUexternalMemory*>(memory), &to);
  });
}

SLUICE_CUDART_API cudaError_t cudaExternalMemoryGetMappedBuffer(
    void** mapped, cudaExternalMemory_t memory, const cudaExternalMemoryBufferDesc* desc) {
  if (mapped == nullptr || desc == nullptr) return record(cudaErrorInvalidValue);
  return with_context([&](const DriverTable& cu) {
    CUDA_EXTERNAL_MEMORY_BUFFER_DESC to{};
    to.offset = desc->offset;
    to.size = desc->size;
    to.flags = desc->flags;
    CUdeviceptr start = 0;
    CUresult result = cu.cuExternalMemoryGetMappedBuffer(&start, to_driver(memory), &to);
    *mapped = pointer(start);
    return result;
  });
}

SLUICE_CUDART_API cudaError_t
cudaExternalMemoryGetMappedMipmappedArray(cudaMipmappedArray_t* mipmap, cudaExternalMemory_t memory,
                                          const cudaExternalMemoryMipmappedArrayDesc* desc) {
  if (mipmap == nullptr || desc == nullptr) return record(cudaErrorInvalidValue);
  return with_context([&](const DriverTable& cu) {
    const std::optional<CUarray_format> format = format_of(desc->formatDesc);
    if (!format) return cudaErrorInvalidChannelDescriptor;
    CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC to{};
    to.offset = desc->offset;
    to.arrayDesc.Width = desc->extent.width;
    to.arrayDesc.Height = desc->extent.height;
    to.arrayDesc.Depth = desc->extent.depth;
    to.arrayDesc.Format = *format;
    to.arrayDesc.NumChannels = channels_of(desc->formatDesc);
    to.arrayDesc.Flags = desc->flags;
    to.numLevels = desc->numLevels;
    return to_runtime(cu.cuExternalMemoryGetMappedMipmappedArray(
        reinterpret_cast<CUmipmappedArray*>(mipmap), to_driver(memory), &to));
  });
}

SLUICE_CUDART_API cudaError_t cudaDestroyExternalMemory(cudaExternalMemory_t memory) {
  return with_context(
      [&](const DriverTable& cu) { return cu.cuDestroyExternalMemory(to_driver(memory)); });
}

SLUICE_CUDART_API cudaError_t cudaImportExternalSemaphore(
    cudaExternalSemaphore_t* semaphore, const cudaExternalSemaphoreHandleDesc* desc) {
  if (semaphore == nullptr || desc == nullptr) return record(cudaErrorInvalidValue);
  return with_context([&](const DriverTable& cu) {
    CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC to{};
    to.type = static_cast<CUexternalSemaphoreHandleType>(desc->type);
    static_assert(sizeof to.handle == sizeof desc->handle);
    std::memcpy(&to.handle, &desc->handle, sizeof to.handle);
    to.flags = desc->flags;
    return cu.cuImportExternalSemaphore(reinterpret_cast<CUexternalSemaphore*>(semaphore), &to);
  });
}

SLUICE_CUDART_API cudaError_t cudaDestroyExternalSemaphore(cudaExternalSemaphore_t semaphore) {
  return with_context(
      [&](const DriverTable& cu) { return cu.cuDestroyExternalSemaphore(to_driver(semaphore)); });
}

SLUICE_CUDART_API cudaError_t cudaSignalExternalSemaphoresAsync_v2(
    const cudaExternalSemaphore_t* semaphores, const cudaExternalSemaphoreSignalParams* params,
    unsigned count, cudaStream_t stream) {
  return with_context([&](const DriverTable& cu) {
    return cu.cuSignalExternalSemaphoresAsync(
        to_driver(semaphores), same_layout<const CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS*>(params),
        count, stream);
  });
}

SLUICE_CUDART_API cudaError_t cudaWaitExternalSemaphoresAsync_v2(
    const cudaExternalSemaphore_t* semaphores, const cudaExternalSemaphoreWaitParams* params,
    unsigned count, cudaStream_t stream) {
  return with_context([&](const DriverTable& cu) {
    return cu.cuWaitExternalSemaphoresAsync(
        to_driver(semaphores), same_layout<const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS*>(params),
        count, stream);
  });
}

namespace {

// The old structs have the parameters without the reserved space behind them.
cudaExternalSemaphoreSignalParams widen(const v11::SignalParams& from) {
  cudaExternalSemaphoreSignalParams to{};
  to.params.fence.value = from.fence_value;
  to.params.nvSciSync.reserved = from.sync_fence;
  to.params.keyedMutex.key = from.mutex_key;
  to.flags = from.flags;
  return to;
}
cudaExternalSemaphoreWaitParams widen(const v11::WaitParams& from) {
  cudaExternalSemaphoreWaitParams to{};
  to.params.fence.value = from.fence_value;
  to.params.nvSciSync.reserved = from.sync_fence;
  to.params.keyedMutex.key = from.mutex_key;
  to.params.keyedMutex.timeoutMs = from.mutex_timeout_ms;
  to.flags = from.flags;
  return to;
}

template <class Old>
auto widen_all(const Old* params, unsigned count) {
  std::vector<decltype(widen(*params))> wide;
  wide.reserve(count);
  for (unsigned i = 0; i < count; ++i) wide.push_back(widen(params[i]));
  return wide;
}

}  // namespace

SLUICE_CUDART_FORM(11, cudaSignalExternalSemaphoresAsync)
(const cudaExternalSemaphore_t* semaphores, const v11::SignalParams* params, unsigned count,
 cudaStream_t stream) {
  if (params == nullptr) return record(cudaErrorInvalidValue);
  return cudaSignalExternalSemaphoresAsync_v2(semaphores, widen_all(params, count).data(), count,
                                              stream);
}
SLUICE_CUDART_FORM(11, cudaSignalExternalSemaphoresAsync_ptsz)
(const cudaExternalSemaphore_t* semaphores, const v11::SignalParams* params, unsigned count,
 cudaStream_t stream) {
  return sluice_v11_cudaSignalExternalSemaphoresAsync(semaphores, params, count,
                                                      per_thread(stream));
}

SLUICE_CUDART_FORM(11, cudaWaitExternalSemaphoresAsync)
(const cudaExternalSemaphore_t* semaphores, const v11::WaitParams* params, unsigned count,
 cudaStream_t stream) {
  if (params == nullptr) return record(cudaErrorInvalidValue);
  return cudaWaitExternalSemaphoresAsync_v2(semaphores, widen_all(params, count).data(), count,
                                            stream);
}
SLUICE_CUDART_FORM(11, cudaWaitExternalSemaphoresAsync_ptsz)
(const cudaExternalSemaphore_t* semaphores, const v11::WaitParams* params, unsigned count,
 cudaStream_t stream) {
  return sluice_v11_cudaWaitExternalSemaphoresAsync(semaphores, params, count, per_thread(stream));
}
