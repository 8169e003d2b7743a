// Allocation: device, pinned, registered, pitched, managed.
#include "shim/cudart/runtime.h"

using namespace sluice::cudart;
using sluice::DriverTable;

SLUICE_CUDART_API cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  if (memory == nullptr) return record(cudaErrorInvalidValue);
  return with_context([&](const DriverTable& cu) {
    *memory = nullptr;
    if (bytes == 0) return CUDA_SUCCESS;  // the driver API refuses it, this one does not
    CUdeviceptr address = 0;
    CUresult result = cu.cuMemAlloc_v2(&address, bytes);
    *memory = pointer(address);
    return result;
  });
}

SLUICE_CUDART_API cudaError_t cudaFree(void* memory) {
  return with_context([&](const DriverTable& cu) {
    return memory == nullptr ? CUDA_SUCCESS : cu.cuMemFree_v2(address(memory));
  });
}

SLUICE_CUDART_API cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned flags) {
  if (memory == nullptr) return record(cudaErrorInvalidValue);
  return with_context([&](const DriverTable& cu) {
    *memory = nullptr;
    return bytes == 0 ? CUDA_SUCCESS : cu.cuMemHostAlloc(memory, bytes, flags);
  });
}

SLUICE_CUDART_API cudaError_t cudaMallocHost(void** memory, std::size_t bytes) {
  return cudaHostAlloc(memory, bytes, cudaHostAllocDefault);
}

SLUICE_CUDART_API cudaError_t cudaFreeHost(void* memory) {
  return with_context([&](const DriverTable& cu) {
    return memory == nullptr ? CUDA_SUCCESS : cu.cuMemFreeHost(memory);
  });
}

SLUICE_CUDART_API cudaError_t cudaHostRegister(void* memory, std::size_t bytes, unsigned flags) {
  return with_context(
      [&](const DriverTable& cu) { return cu.cuMemHostRegister_v2(memory, bytes, flags); });
}

SLUICE_CUDART_API cudaError_t cudaHostUnregister(void* memory) {
  return with_context([&](const DriverTable& cu) { return cu.cuMemHostUnregister(memory); });
}

SLUICE_CUDART_API cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned flags) {
  if (device == nullptr) return record(cudaErrorInvalidValue);
  return with_context([&](const DriverTable& cu) {
    CUdeviceptr address = 0;
    CUresult result = cu.cuMemHostGetDevicePointer_v2(&address, host, flags);
    *device = pointer(address);
    return result;
  });
}

SLUICE_CUDART_API cudaError_t cudaHostGetFlags(unsigned* flags, void* host) {
  return with_context([&](const DriverTable& cu) { return cu.cuMemHostGetFlags(flags, host); });
}

SLUICE_CUDART_API cudaError_t cudaMallocManaged(void** memory, std::size_t bytes, unsigned flags) {
  if (memory == nullptr) return record(cudaErrorInvalidValue);
  return with_context([&](const DriverTable& cu) {
    CUdeviceptr address = 0;
    CUresult result = cu.cuMemAllocManaged(&address, bytes, flags);
    *memory = pointer(address);
    return result;
  });
}

namespace {

// Rows are aligned for the largest element that a kernel may read at once.
constexpr unsigned kPitchElementBytes = 16;

CUresult allocate_pitched(const DriverTable& cu, void** memory, std::size_t* pitch,
                          std::size_t width, std::size_t height) {
  *memory = nullptr;
  *pitch = 0;
  if (width == 0 || height == 0) return CUDA_SUCCESS;
  CUdeviceptr address = 0;
  CUresult result = cu.cuMemAllocPitch_v2(&address, pitch, width, height, kPitchElementBytes);
  *memory = pointer(address);
  return result;
}

}  // namespace

SLUICE_CUDART_API cudaError_t cudaMallocPitch(void** memory, std::size_t* pitch, std::size_t width,
                                              std::size_t height) {
  if (memory == nullptr || pitch == nullptr) return record(cudaErrorInvalidValue);
  return with_context(
      [&](const DriverTable& cu) { return allocate_pitched(cu, memory, pitch, width, height); });
}

SLUICE_CUDART_API cudaError_t cudaMalloc3D(cudaPitchedPtr* memory, cudaExtent extent) {
  if (memory == nullptr) return record(cudaErrorInvalidValue);
  return with_context([&](const DriverTable& cu) {
    memory->xsize = extent.width;
    memory->ysize = extent.height;
    return allocate_pitched(cu, &memory->ptr, &memory->pitch, extent.width,
                            extent.height * extent.depth);
  });
}

SLUICE_CUDART_API cudaError_t cudaMemGetInfo(std::size_t* free_bytes, std::size_t* total_bytes) {
  return with_context(
      [&](const DriverTable& cu) { return cu.cuMemGetInfo_v2(free_bytes, total_bytes); });
}

SLUICE_CUDART_API cudaError_t cudaMemPrefetchAsync_v2(const void* memory, std::size_t bytes,
                                                      cudaMemLocation location, unsigned flags,
                                                      cudaStream_t stream) {
  return with_context([&](const DriverTable& cu) {
    return cu.cuMemPrefetchAsync_v2(address(memory), bytes, *same_layout<CUmemLocation*>(&location),
                                    flags, stream);
  });
}

SLUICE_CUDART_API cudaError_t cudaMemAdvise_v2(const void* memory, std::size_t bytes,
                                               cudaMemoryAdvise advice, cudaMemLocation location) {
  return with_context([&](const DriverTable& cu) {
    return cu.cuMemAdvise_v2(address(memory), bytes, static_cast<CUmem_advise>(advice),
                             *same_layout<CUmemLocation*>(&location));
  });
}

SLUICE_CUDART_API cudaError_t cudaMemRangeGetAttribute(void* data, std::size_t data_bytes,
                                                       cudaMemRangeAttribute attribute,
                                                       const void* memory, std::size_t bytes) {
  return with_context([&](const DriverTable& cu) {
    return cu.cuMemRangeGetAttribute(
        data, data_bytes, static_cast<CUmem_range_attribute>(attribute), address(memory), bytes);
  });
}

SLUICE_CUDART_API cudaError_t cudaMemRangeGetAttributes(void** data, std::size_t* data_bytes,
                                                        cudaMemRangeAttribute* attributes,
                                                        std::size_t count, const void* memory,
                                                        std::size_t bytes) {
  return with_context([&](const DriverTable& cu) {
    return cu.cuMemRangeGetAttributes(data, data_bytes,
                                      same_layout<CUmem_range_attribute*>(attributes), count,
                                      address(memory), bytes);
  });
}

namespace {

// Lists of device addresses have the same layout in both APIs.
CUdeviceptr* addresses(void** list) {
  return reinterpret_cast<CUdeviceptr*>(list);
}

}  // namespace

SLUICE_CUDART_API cudaError_t cudaMemPrefetchBatchAsync(
    void** memory, std::size_t* sizes, std::size_t count, cudaMemLocation* locations,
    std::size_t* first_of_location, std::size_t location_count, unsigned long long flags,
    cudaStream_t stream) {
  return with_context([&](const DriverTable& cu) {
    return cu.cuMemPrefetchBatchAsync(addresses(memory), sizes, count,
                                      same_layout<CUmemLocation*>(locations), first_of_location,
                                      location_count, flags, stream);
  });
}

SLUICE_CUDART_API cudaError_t cudaMemDiscardBatchAsync(void** memory, std::size_t* sizes,
                                                       std::size_t count, unsigned long long flags,
                                                       cudaStream_t stream) {
  return with_context([&](const DriverTable& cu) {
    return cu.cuMemDiscardBatchAsync(addresses(memory), sizes, count, flags, stream);
  });
}

SLUICE_CUDART_API cudaError_t cudaMemDiscardAndPrefetchBatchAsync(
    void** memory, std::size_t* sizes, std::size_t count, cudaMemLocation* locations,
    std::size_t* first_of_location, std::size_t location_count, unsigned long long flags,
    cudaStream_t stream) {
  return with_context([&](const DriverTable& cu) {
    return cu.cuMemDiscardAndPrefetchBatchAsync(addresses(memory), sizes, count,
                                                same_layout<CUmemLocation*>(locations),
                                                first_of_location, location_count, flags, stream);
  });
}
