// Stream-ordered allocation and memory pools: the same handles and structs as in the driver API.
#include "shim/cudart/runtime.h"

using namespace sluice::cudart;
using sluice::DriverTable;

SLUICE_CUDART_API cudaError_t cudaMallocAsync(void** memory, std::size_t bytes,
                                              cudaStream_t stream) {
  if (memory == nullptr) return record(cudaErrorInvalidValue);
  return with_context([&](const DriverTable& cu) {
    CUdeviceptr address = 0;
    CUresult result = bytes == 0 ? CUDA_SUCCESS : cu.cuMemAllocAsync(&address, bytes, stream);
    *memory = pointer(address);
    return result;
  });
}

SLUICE_CUDART_API cudaError_t cudaMallocFromPoolAsync(void** memory, std::size_t bytes,
                                                      cudaMemPool_t pool, cudaStream_t stream) {
  if (memory == nullptr) return record(cudaErrorInvalidValue);
  return with_context([&](const DriverTable& cu) {
    CUdeviceptr address = 0;
    CUresult result =
        bytes == 0 ? CUDA_SUCCESS : cu.cuMemAllocFromPoolAsync(&address, bytes, pool, stream);
    *memory = pointer(address);
    return result;
  });
}

SLUICE_CUDART_API cudaError_t cudaFreeAsync(void* memory, cudaStream_t stream) {
  return with_context([&](const DriverTable& cu) {
    return memory == nullptr ? CUDA_SUCCESS : cu.cuMemFreeAsync(address(memory), stream);
  });
}

SLUICE_CUDART_API cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
  return with_device(device, [&](const DriverTable& cu, CUdevice handle) {
    return cu.cuDeviceGetDefaultMemPool(pool, handle);
  });
}

SLUICE_CUDART_API cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* pool, int device) {
  return with_device(device, [&](const DriverTable& cu, CUdevice handle) {
    return cu.cuDeviceGetMemPool(pool, handle);
  });
}

SLUICE_CUDART_API cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t pool) {
  return with_device(device, [&](const DriverTable& cu, CUdevice handle) {
    return cu.cuDeviceSetMemPool(handle, pool);
  });
}

SLUICE_CUDART_API cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool,
                                                const cudaMemPoolProps* properties) {
  return with_context([&](const DriverTable& cu) {
    return cu.cuMemPoolCreate(pool, same_layout<const CUmemPoolProps*>(properties));
  });
}

SLUICE_CUDART_API cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) {
  return with_context([&](const DriverTable& cu) { return cu.cuMemPoolDestroy(pool); });
}

SLUICE_CUDART_API cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, std::size_t bytes_min) {
  return with_context([&](const DriverTable& cu) { return cu.cuMemPoolTrimTo(pool, bytes_min); });
}

SLUICE_CUDART_API cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute,
                                                      void* value) {
  return with_context([&](const DriverTable& cu) {
    return cu.cuMemPoolSetAttribute(pool, static_cast<CUmemPool_attribute>(attribute), value);
  });
}

SLUICE_CUDART_API cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute,
                                                      void* value) {
  return with_context([&](const DriverTable& cu) {
    return cu.cuMemPoolGetAttribute(pool, static_cast<CUmemPool_attribute>(attribute), value);
  });
}

SLUICE_CUDART_API cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool,
                                                   const cudaMemAccessDesc* access,
                                                   std::size_t count) {
  return with_context([&](const DriverTable& cu) {
    return cu.cuMemPoolSetAccess(pool, same_layout<const CUmemAccessDesc*>(access), count);
  });
}

SLUICE_CUDART_API cudaError_t cudaMemPoolGetAccess(cudaMemAccessFlags* flags, cudaMemPool_t pool,
                                                   cudaMemLocation* location) {
  return with_context([&](const DriverTable& cu) {
    return cu.cuMemPoolGetAccess(same_layout<CUmemAccess_flags*>(flags), pool,
                                 same_layout<CUmemLocation*>(location));
  });
}

SLUICE_CUDART_API cudaError_t cudaMemPoolExportToShareableHandle(void* handle, cudaMemPool_t pool,
                                                                 cudaMemAllocationHandleType type,
                                                                 unsigned flags) {
  return with_context([&](const DriverTable& cu) {
    return cu.cuMemPoolExportToShareableHandle(handle, pool,
                                               static_cast<CUmemAllocationHandleType>(type), flags);
  });
}

SLUICE_CUDART_API cudaError_t cudaMemPoolImportFromShareableHandle(cudaMemPool_t* pool,
                                                                   void* handle,
                                                                   cudaMemAllocationHandleType type,
                                                                   unsigned flags) {
  return with_context([&](const DriverTable& cu) {
    return cu.cuMemPoolImportFromShareableHandle(
        pool, handle, static_cast<CUmemAllocationHandleType>(type), flags);
  });
}

SLUICE_CUDART_API cudaError_t cudaMemPoolExportPointer(cudaMemPoolPtrExportData* data,
                                                       void* memory) {
  return with_context([&](const DriverTable& cu) {
    return cu.cuMemPoolExportPointer(same_layout<CUmemPoolPtrExportData*>(data), address(memory));
  });
}

SLUICE_CUDART_API cudaError_t cudaMemPoolImportPointer(void** memory, cudaMemPool_t pool,
                                                       cudaMemPoolPtrExportData* data) {
  if (memory == nullptr) return record(cudaErrorInvalidValue);
  return with_context([&](const DriverTable& cu) {
    CUdeviceptr address = 0;
    CUresult result =
        cu.cuMemPoolImportPointer(&address, pool, same_layout<CUmemPoolPtrExportData*>(data));
    *memory = pointer(address);
    return result;
  });
}

SLUICE_CUDART_API cudaError_t cudaMemGetDefaultMemPool(cudaMemPool_t* pool,
                                                       cudaMemLocation* location,
                                                       cudaMemAllocationType type) {
  return with_context([&](const DriverTable& cu) {
    return cu.cuMemGetDefaultMemPool(pool, same_layout<CUmemLocation*>(location),
                                     static_cast<CUmemAllocationType>(type));
  });
}

SLUICE_CUDART_API cudaError_t cudaMemGetMemPool(cudaMemPool_t* pool, cudaMemLocation* location,
                                                cudaMemAllocationType type) {
  return with_context([&](const DriverTable& cu) {
    return cu.cuMemGetMemPool(pool, same_layout<CUmemLocation*>(location),
                              static_cast<CUmemAllocationType>(type));
  });
}

SLUICE_CUDART_API cudaError_t cudaMemSetMemPool(cudaMemLocation* location,
                                                cudaMemAllocationType type, cudaMemPool_t pool) {
  return with_context([&](const DriverTable& cu) {
    return cu.cuMemSetMemPool(same_layout<CUmemLocation*>(location),
                              static_cast<CUmemAllocationType>(type), pool);
  });
}
