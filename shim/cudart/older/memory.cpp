// Managed-memory hints and batched copies as CUDA 11 and 12 declared them.
#include "shim/cudart/newest.h"

using namespace sluice::cudart;
using sluice::DriverTable;

namespace {

/// Before CUDA 12.2 a place was a device's number, and the host had one, too.
cudaMemLocation location_of(int device) {
  cudaMemLocation location{};
  location.type = device == cudaCpuDeviceId ? cudaMemLocationTypeHost : cudaMemLocationTypeDevice;
  location.id = device == cudaCpuDeviceId ? 0 : device;
  return location;
}

}  // namespace

SLUICE_CUDART_FORM(11, cudaMemAdvise)
(const void* memory, std::size_t bytes, cudaMemoryAdvise advice, int device) {
  return cudaMemAdvise_v2(memory, bytes, advice, location_of(device));
}

SLUICE_CUDART_FORM(11, cudaMemPrefetchAsync)
(const void* memory, std::size_t bytes, int device, cudaStream_t stream) {
  return cudaMemPrefetchAsync_v2(memory, bytes, location_of(device), 0, stream);
}
SLUICE_CUDART_FORM(11, cudaMemPrefetchAsync_ptsz)
(const void* memory, std::size_t bytes, int device, cudaStream_t stream) {
  return cudaMemPrefetchAsync_v2(memory, bytes, location_of(device), 0, per_thread(stream));
}

// CUDA 12 reported the index of the operation that failed; CUDA 13 does not tell it any more.
SLUICE_CUDART_FORM(13, cudaMemcpyBatchAsync)
(void* const* to, const void* const* from, const std::size_t* sizes, std::size_t count,
 cudaMemcpyAttributes* attributes, std::size_t* first_of_attribute, std::size_t attribute_count,
 cudaStream_t stream) {
  return with_context([&](const DriverTable& cu) {
    // The driver only reads the lists.
    auto* targets = reinterpret_cast<CUdeviceptr*>(const_cast<void**>(to));
    auto* sources = reinterpret_cast<CUdeviceptr*>(const_cast<void**>(from));
    return cu.cuMemcpyBatchAsync_v2(targets, sources, const_cast<std::size_t*>(sizes), count,
                                    same_layout<CUmemcpyAttributes*>(attributes),
                                    first_of_attribute, attribute_count, stream);
  });
}
SLUICE_CUDART_FORM(13, cudaMemcpyBatchAsync_ptsz)
(void* const* to, const void* const* from, const std::size_t* sizes, std::size_t count,
 cudaMemcpyAttributes* attributes, std::size_t* first_of_attribute, std::size_t attribute_count,
 cudaStream_t stream) {
  return sluice_v13_cudaMemcpyBatchAsync(to, from, sizes, count, attributes, first_of_attribute,
                                         attribute_count, per_thread(stream));
}

namespace {

/// "No particular operation", where one cannot be named.
cudaError_t tell_failure(cudaError_t error, std::size_t* failed) {
  if (error != cudaSuccess && failed != nullptr) *failed = SIZE_MAX;
  return error;
}

}  // namespace

SLUICE_CUDART_FORM(12, cudaMemcpyBatchAsync)
(void** to, void** from, std::size_t* sizes, std::size_t count, cudaMemcpyAttributes* attributes,
 std::size_t* first_of_attribute, std::size_t attribute_count, std::size_t* failed,
 cudaStream_t stream) {
  return tell_failure(sluice_v13_cudaMemcpyBatchAsync(to, from, sizes, count, attributes,
                                                      first_of_attribute, attribute_count, stream),
                      failed);
}
SLUICE_CUDART_FORM(12, cudaMemcpyBatchAsync_ptsz)
(void** to, void** from, std::size_t* sizes, std::size_t count, cudaMemcpyAttributes* attributes,
 std::size_t* first_of_attribute, std::size_t attribute_count, std::size_t* failed,
 cudaStream_t stream) {
  return sluice_v12_cudaMemcpyBatchAsync(to, from, sizes, count, attributes, first_of_attribute,
                                         attribute_count, failed, per_thread(stream));
}

SLUICE_CUDART_FORM(13, cudaMemcpy3DBatchAsync)
(std::size_t count, cudaMemcpy3DBatchOp* operations, unsigned long long flags,
 cudaStream_t stream) {
  return with_context([&](const DriverTable& cu) {
    return cu.cuMemcpy3DBatchAsync_v2(count, same_layout<CUDA_MEMCPY3D_BATCH_OP*>(operations),
                                      flags, stream);
  });
}
SLUICE_CUDART_FORM(13, cudaMemcpy3DBatchAsync_ptsz)
(std::size_t count, cudaMemcpy3DBatchOp* operations, unsigned long long flags,
 cudaStream_t stream) {
  return sluice_v13_cudaMemcpy3DBatchAsync(count, operations, flags, per_thread(stream));
}
SLUICE_CUDART_FORM(12, cudaMemcpy3DBatchAsync)
(std::size_t count, cudaMemcpy3DBatchOp* operations, std::size_t* failed, unsigned long long flags,
 cudaStream_t stream) {
  return tell_failure(sluice_v13_cudaMemcpy3DBatchAsync(count, operations, flags, stream), failed);
}
SLUICE_CUDART_FORM(12, cudaMemcpy3DBatchAsync_ptsz)
(std::size_t count, cudaMemcpy3DBatchOp* operations, std::size_t* failed, unsigned long long flags,
 cudaStream_t stream) {
  return sluice_v12_cudaMemcpy3DBatchAsync(count, operations, failed, flags, per_thread(stream));
}
