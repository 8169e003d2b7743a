// Stream-ordered allocation: the calls. What a pool does with memory is in memory_pool_store.cpp.
#include "softgpu/api/memory_pool.h"

#include "softgpu/api/ranges.h"

namespace sluice::softgpu {
namespace {

/// The device's pools exist once somebody asks. Called with the device's mutex held.
CUmemoryPool default_pool(Device* device) {
  if (device->default_pool == nullptr) {
    device->default_pool = state().pools.add(std::make_shared<MemoryPool>(device, 0));
    device->pool = device->default_pool;
  }
  return device->default_pool;
}

CUresult device_with_pools(CUdevice ordinal, Device** out) {
  SOFTGPU_CHECK(initialised());
  *out = device_of(ordinal);
  return *out != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult find_pool(CUmemoryPool handle, std::shared_ptr<MemoryPool>* out) {
  SOFTGPU_CHECK(initialised());
  *out = state().pools.find(handle);
  return *out != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult check_location(const CUmemLocation* location, CUmemAllocationType type) {
  if (location == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return location->type == CU_MEM_LOCATION_TYPE_DEVICE && type == CU_MEM_ALLOCATION_TYPE_PINNED
             ? CUDA_SUCCESS
             : CUDA_ERROR_NOT_SUPPORTED;
}

CUresult allocate_in(const std::shared_ptr<MemoryPool>& pool, std::size_t bytes,
                     const std::shared_ptr<Stream>& stream, CUdeviceptr* out) {
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  SOFTGPU_CHECK(refuse_in_capture(stream));  // memory nodes of graphs are not supported
  return pool->allocate(bytes, stream, out);
}

}  // namespace
}  // namespace sluice::softgpu

using namespace sluice::softgpu;

SOFTGPU_API cuDeviceGetDefaultMemPool(CUmemoryPool* out, CUdevice ordinal) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Device* device = nullptr;
  SOFTGPU_CHECK(device_with_pools(ordinal, &device));
  const std::lock_guard lock(device->mutex);
  *out = default_pool(device);
  return CUDA_SUCCESS;
}

SOFTGPU_API cuDeviceGetMemPool(CUmemoryPool* out, CUdevice ordinal) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Device* device = nullptr;
  SOFTGPU_CHECK(device_with_pools(ordinal, &device));
  const std::lock_guard lock(device->mutex);
  default_pool(device);
  *out = device->pool;
  return CUDA_SUCCESS;
}

SOFTGPU_API cuDeviceSetMemPool(CUdevice ordinal, CUmemoryPool handle) {
  Device* device = nullptr;
  SOFTGPU_CHECK(device_with_pools(ordinal, &device));
  std::shared_ptr<MemoryPool> pool;
  SOFTGPU_CHECK(find_pool(handle, &pool));
  if (pool->device() != device) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard lock(device->mutex);
  default_pool(device);
  device->pool = handle;
  return CUDA_SUCCESS;
}

SOFTGPU_API cuMemGetDefaultMemPool(CUmemoryPool* out, CUmemLocation* location,
                                   CUmemAllocationType type) {
  SOFTGPU_CHECK(check_location(location, type));
  return cuDeviceGetDefaultMemPool(out, location->id);
}
SOFTGPU_API cuMemGetMemPool(CUmemoryPool* out, CUmemLocation* location, CUmemAllocationType type) {
  SOFTGPU_CHECK(check_location(location, type));
  return cuDeviceGetMemPool(out, location->id);
}
SOFTGPU_API cuMemSetMemPool(CUmemLocation* location, CUmemAllocationType type, CUmemoryPool pool) {
  SOFTGPU_CHECK(check_location(location, type));
  return cuDeviceSetMemPool(location->id, pool);
}

SOFTGPU_API cuMemPoolCreate(CUmemoryPool* out, const CUmemPoolProps* properties) {
  if (out == nullptr || properties == nullptr) return CUDA_ERROR_INVALID_VALUE;
  SOFTGPU_CHECK(check_location(&properties->location, properties->allocType));
  if (properties->handleTypes != CU_MEM_HANDLE_TYPE_NONE) return CUDA_ERROR_NOT_SUPPORTED;
  Device* device = nullptr;
  SOFTGPU_CHECK(device_with_pools(properties->location.id, &device));
  *out = state().pools.add(std::make_shared<MemoryPool>(device, properties->maxSize));
  return CUDA_SUCCESS;
}

SOFTGPU_API cuMemPoolDestroy(CUmemoryPool handle) {
  std::shared_ptr<MemoryPool> pool;
  SOFTGPU_CHECK(find_pool(handle, &pool));
  {
    const std::lock_guard lock(pool->device()->mutex);
    if (handle == pool->device()->default_pool) return CUDA_ERROR_INVALID_VALUE;
    if (handle == pool->device()->pool) pool->device()->pool = pool->device()->default_pool;
  }
  keep_until_empty(std::move(pool));
  state().pools.remove(handle);
  trim_pools();
  return CUDA_SUCCESS;
}

SOFTGPU_API cuMemAllocFromPoolAsync(CUdeviceptr* out, size_t bytes, CUmemoryPool handle,
                                    CUstream stream_handle) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Stream> stream;
  SOFTGPU_CHECK(stream_of(stream_handle, &stream));
  std::shared_ptr<MemoryPool> pool;
  SOFTGPU_CHECK(find_pool(handle, &pool));
  return allocate_in(pool, bytes, stream, out);
}

SOFTGPU_API cuMemAllocAsync(CUdeviceptr* out, size_t bytes, CUstream stream_handle) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Stream> stream;
  SOFTGPU_CHECK(stream_of(stream_handle, &stream));
  CUmemoryPool handle = nullptr;
  SOFTGPU_CHECK(cuDeviceGetMemPool(&handle, ordinal_of(stream->context->device)));
  std::shared_ptr<MemoryPool> pool;
  SOFTGPU_CHECK(find_pool(handle, &pool));
  return allocate_in(pool, bytes, stream, out);
}

SOFTGPU_API cuMemFreeAsync(CUdeviceptr p, CUstream stream_handle) {
  std::shared_ptr<Stream> stream;
  SOFTGPU_CHECK(stream_of(stream_handle, &stream));
  if (p == 0) return CUDA_ERROR_INVALID_VALUE;
  SOFTGPU_CHECK(refuse_in_capture(stream));
  if (const auto pool = pool_of(p)) return pool->free_in(p, stream);
  // Memory of cuMemAlloc may be freed in stream order too.
  const auto range = memory_at(p);
  if (!range || range->address != p || range->owner == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return submit(
      stream,
      [p, device = range->device] {
        device->arena->free(p);
        return CUDA_SUCCESS;
      },
      nullptr, true);
}

SOFTGPU_API cuMemPoolTrimTo(CUmemoryPool handle, size_t keep_bytes) {
  std::shared_ptr<MemoryPool> pool;
  SOFTGPU_CHECK(find_pool(handle, &pool));
  pool->trim(keep_bytes);
  return CUDA_SUCCESS;
}

SOFTGPU_API cuMemPoolSetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute, void* value) {
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<MemoryPool> pool;
  SOFTGPU_CHECK(find_pool(handle, &pool));
  switch (static_cast<int>(attribute)) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
      pool->follow_event_dependencies = *static_cast<int*>(value);
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
      pool->allow_opportunistic = *static_cast<int*>(value);
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
      pool->allow_internal_dependencies = *static_cast<int*>(value);
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      pool->release_threshold_bytes = *static_cast<cuuint64_t*>(value);
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      if (*static_cast<cuuint64_t*>(value) != 0) return CUDA_ERROR_INVALID_VALUE;
      pool->reset_high(attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH);
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

SOFTGPU_API cuMemPoolGetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute, void* value) {
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<MemoryPool> pool;
  SOFTGPU_CHECK(find_pool(handle, &pool));
  const MemoryPool::Figures figures = pool->figures();
  auto* number = static_cast<cuuint64_t*>(value);
  switch (static_cast<int>(attribute)) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
      *static_cast<int*>(value) = pool->follow_event_dependencies;
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
      *static_cast<int*>(value) = pool->allow_opportunistic;
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
      *static_cast<int*>(value) = pool->allow_internal_dependencies;
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      *number = pool->release_threshold_bytes;
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
      *number = figures.reserved;
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
      *number = figures.reserved_high;
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
      *number = figures.used;
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      *number = figures.used_high;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

// The device itself always has access, and no peer can (cuDeviceCanAccessPeer).
SOFTGPU_API cuMemPoolSetAccess(CUmemoryPool handle, const CUmemAccessDesc* access, size_t count) {
  std::shared_ptr<MemoryPool> pool;
  SOFTGPU_CHECK(find_pool(handle, &pool));
  if (access == nullptr && count > 0) return CUDA_ERROR_INVALID_VALUE;
  for (std::size_t i = 0; i < count; ++i) {
    const CUmemLocation& where = access[i].location;
    if (where.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_INVALID_VALUE;
    if (device_of(where.id) != pool->device()) return CUDA_ERROR_INVALID_DEVICE;
    if (access[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE) return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

SOFTGPU_API cuMemPoolGetAccess(CUmemAccess_flags* flags, CUmemoryPool handle,
                               CUmemLocation* location) {
  std::shared_ptr<MemoryPool> pool;
  SOFTGPU_CHECK(find_pool(handle, &pool));
  if (flags == nullptr || location == nullptr || location->type != CU_MEM_LOCATION_TYPE_DEVICE)
    return CUDA_ERROR_INVALID_VALUE;
  Device* device = device_of(location->id);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  *flags =
      device == pool->device() ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
  return CUDA_SUCCESS;
}
