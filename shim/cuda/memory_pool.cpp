// Stream-ordered memory. Pools are names and figures: the memory comes from the context's arena and
// goes back there in stream order (shim/device_memory).
#include "shim/api.h"

#include <cstring>
#include <memory>
#include <mutex>
#include <utility>

using namespace sluice;
using namespace sluice::shim;

namespace {

using PoolRef = std::shared_ptr<MemoryPool>;

CUmemoryPool publish_pool(CUdevice device, std::uint64_t max_bytes) {
  auto pool = std::make_shared<MemoryPool>();
  pool->device = device;
  pool->max_bytes = max_bytes;
  Entry entry;
  entry.id = reserve_id();
  entry.object = new PoolRef(std::move(pool));
  return new_handle<CUmemoryPool>(entry);
}

CUresult find_pool(CUmemoryPool handle, PoolRef* pool) {
  Entry entry;
  if (handle == nullptr || !handles().find(Kind::kPool, handle_bits(handle), &entry))
    return CUDA_ERROR_INVALID_VALUE;
  *pool = *static_cast<PoolRef*>(entry.object);
  return CUDA_SUCCESS;
}

CUresult enter_device(wire::Fn fn, CUdevice device) {
  if (const CUresult refused = enter_needing(fn, wire::Needs::kInit)) return refused;
  if (!session().devices().has(device)) return CUDA_ERROR_INVALID_DEVICE;
  return session().devices()
                     .attribute(device, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED)
                     .value_or(0) != 0
             ? CUDA_SUCCESS
             : CUDA_ERROR_NOT_SUPPORTED;
}

CUresult default_pool(CUdevice device, CUmemoryPool* out) {
  DevicePools& pools = session().device_pools(device);
  std::lock_guard lock(pools.mutex);
  if (pools.standard == nullptr) pools.standard = publish_pool(device, 0);
  *out = pools.standard;
  return CUDA_SUCCESS;
}

CUresult current_pool(CUdevice device, CUmemoryPool* out) {
  DevicePools& pools = session().device_pools(device);
  {
    std::lock_guard lock(pools.mutex);
    if (pools.current != nullptr) {
      *out = pools.current;
      return CUDA_SUCCESS;
    }
  }
  return default_pool(device, out);
}

CUresult set_current_pool(CUdevice device, CUmemoryPool handle) {
  PoolRef pool;
  if (const CUresult bad = find_pool(handle, &pool)) return bad;
  if (pool->device != device) return CUDA_ERROR_INVALID_VALUE;
  DevicePools& pools = session().device_pools(device);
  std::lock_guard lock(pools.mutex);
  pools.current = handle;
  return CUDA_SUCCESS;
}

CUresult check_location(const CUmemLocation* location, CUmemAllocationType type) {
  if (location == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return type == CU_MEM_ALLOCATION_TYPE_PINNED && location->type == CU_MEM_LOCATION_TYPE_DEVICE
             ? CUDA_SUCCESS
             : CUDA_ERROR_NOT_SUPPORTED;
}

CUresult allocate(CUdeviceptr* out, std::size_t bytes, CUmemoryPool handle, CUstream in) {
  if (out == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  PoolRef pool;
  if (const CUresult bad = find_pool(handle, &pool)) return bad;
  Stream* stream = nullptr;
  if (const CUresult bad = find_stream(in, &stream)) return bad;
  // Memory nodes of graphs are not carried.
  if (stream->is_capturing.load()) return unsupported(thread_state().fn);
  Context* context = current_context();
  // Memory of another device than the current context's.
  if (pool->device != context->device) return unsupported(thread_state().fn);
  if (bytes > SIZE_MAX / 2 || !pool->take(bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  if (const CUresult failed = session().memory().allocate(*context, bytes, out, stream->id)) {
    pool->give(bytes);
    return failed;
  }
  session().addresses().add_device({.base = *out,
                                    .bytes = bytes,
                                    .context = context,
                                    .pool = handle,
                                    .of_pool = std::move(pool)});
  return CUDA_SUCCESS;
}

}  // namespace

SLUICE_API cuDeviceGetDefaultMemPool(CUmemoryPool* pool_out, CUdevice dev) {
  if (const CUresult refused = enter_device(wire::Fn::cuDeviceGetDefaultMemPool, dev))
    return refused;
  return pool_out != nullptr ? default_pool(dev, pool_out) : CUDA_ERROR_INVALID_VALUE;
}

SLUICE_API cuDeviceGetMemPool(CUmemoryPool* pool, CUdevice dev) {
  if (const CUresult refused = enter_device(wire::Fn::cuDeviceGetMemPool, dev)) return refused;
  return pool != nullptr ? current_pool(dev, pool) : CUDA_ERROR_INVALID_VALUE;
}

SLUICE_API cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool) {
  if (const CUresult refused = enter_device(wire::Fn::cuDeviceSetMemPool, dev)) return refused;
  return set_current_pool(dev, pool);
}

SLUICE_API cuMemGetDefaultMemPool(CUmemoryPool* pool_out, CUmemLocation* location,
                                  CUmemAllocationType type) {
  if (const CUresult bad = check_location(location, type)) return bad;
  return cuDeviceGetDefaultMemPool(pool_out, location->id);
}

SLUICE_API cuMemGetMemPool(CUmemoryPool* pool, CUmemLocation* location, CUmemAllocationType type) {
  if (const CUresult bad = check_location(location, type)) return bad;
  return cuDeviceGetMemPool(pool, location->id);
}

SLUICE_API cuMemSetMemPool(CUmemLocation* location, CUmemAllocationType type, CUmemoryPool pool) {
  if (const CUresult bad = check_location(location, type)) return bad;
  return cuDeviceSetMemPool(location->id, pool);
}

SLUICE_API cuMemPoolCreate(CUmemoryPool* pool, const CUmemPoolProps* poolProps) {
  if (const CUresult refused = enter_needing(wire::Fn::cuMemPoolCreate, wire::Needs::kInit))
    return refused;
  if (pool == nullptr || poolProps == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult bad = check_location(&poolProps->location, poolProps->allocType)) return bad;
  if (poolProps->handleTypes != CU_MEM_HANDLE_TYPE_NONE)
    return unsupported(wire::Fn::cuMemPoolCreate);
  const CUdevice device = poolProps->location.id;
  if (const CUresult bad = enter_device(wire::Fn::cuMemPoolCreate, device)) return bad;
  *pool = publish_pool(device, poolProps->maxSize);
  return *pool != nullptr ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

SLUICE_API cuMemPoolDestroy(CUmemoryPool pool) {
  if (const CUresult refused = enter_needing(wire::Fn::cuMemPoolDestroy, wire::Needs::kInit))
    return refused;
  PoolRef known;
  if (const CUresult bad = find_pool(pool, &known)) return bad;
  {
    DevicePools& pools = session().device_pools(known->device);
    std::lock_guard lock(pools.mutex);
    if (pool == pools.standard) return CUDA_ERROR_INVALID_VALUE;
    if (pool == pools.current) pools.current = nullptr;
  }
  Entry entry;
  if (!handles().remove(Kind::kPool, handle_bits(pool), &entry)) return CUDA_ERROR_INVALID_VALUE;
  drop_object(Kind::kPool, entry);
  return CUDA_SUCCESS;
}

SLUICE_API cuMemAllocAsync(CUdeviceptr* dptr, size_t bytesize, CUstream hStream) {
  if (const CUresult refused = enter(wire::Fn::cuMemAllocAsync)) return refused;
  Stream* stream = nullptr;
  if (const CUresult bad = find_stream(hStream, &stream)) return bad;
  CUmemoryPool pool = nullptr;
  if (const CUresult bad = current_pool(stream->context->device, &pool)) return bad;
  return allocate(dptr, bytesize, pool, hStream);
}

SLUICE_API cuMemAllocFromPoolAsync(CUdeviceptr* dptr, size_t bytesize, CUmemoryPool pool,
                                   CUstream hStream) {
  if (const CUresult refused = enter(wire::Fn::cuMemAllocFromPoolAsync)) return refused;
  return allocate(dptr, bytesize, pool, hStream);
}

SLUICE_API cuMemFreeAsync(CUdeviceptr dptr, CUstream hStream) {
  if (const CUresult refused = enter(wire::Fn::cuMemFreeAsync)) return refused;
  const auto known = session().addresses().device(dptr);
  if (!known || known->base != dptr || known->is_variable) return CUDA_ERROR_INVALID_VALUE;
  Stream* stream = nullptr;
  if (const CUresult bad = find_stream(hStream, &stream)) return bad;
  if (stream->is_capturing.load()) return unsupported(wire::Fn::cuMemFreeAsync);
  if (!session().addresses().remove_device(dptr)) return CUDA_ERROR_INVALID_VALUE;
  if (known->of_pool != nullptr) known->of_pool->give(known->bytes);
  return session().memory().free(*known->context, dptr, stream->id);
}

SLUICE_API cuMemPoolTrimTo(CUmemoryPool pool, size_t) {
  if (const CUresult refused = enter_needing(wire::Fn::cuMemPoolTrimTo, wire::Needs::kInit))
    return refused;
  PoolRef known;
  if (const CUresult bad = find_pool(pool, &known)) return bad;
  session().memory().trim();
  return CUDA_SUCCESS;
}

SLUICE_API cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void* value) {
  if (const CUresult refused = enter_needing(wire::Fn::cuMemPoolSetAttribute, wire::Needs::kInit))
    return refused;
  PoolRef known;
  if (const CUresult bad = find_pool(pool, &known)) return bad;
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard lock(known->mutex);
  switch (attr) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
      std::memcpy(&known->reuse[attr - CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES], value,
                  sizeof(int));
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      std::memcpy(&known->release_threshold, value, sizeof(cuuint64_t));
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH: {
      cuuint64_t reset = 1;  // "it is an error to set this attribute to a non-zero value"
      std::memcpy(&reset, value, sizeof reset);
      if (reset != 0) return CUDA_ERROR_INVALID_VALUE;
      if (attr == CU_MEMPOOL_ATTR_USED_MEM_HIGH)
        known->used_bytes_high = known->used_bytes;
      else
        known->reserved_bytes_high = known->reserved_bytes();
      return CUDA_SUCCESS;
    }
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

SLUICE_API cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void* value) {
  if (const CUresult refused = enter_needing(wire::Fn::cuMemPoolGetAttribute, wire::Needs::kInit))
    return refused;
  PoolRef known;
  if (const CUresult bad = find_pool(pool, &known)) return bad;
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard lock(known->mutex);
  const auto give = [&](cuuint64_t figure) {
    std::memcpy(value, &figure, sizeof figure);
    return CUDA_SUCCESS;
  };
  switch (attr) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
      std::memcpy(value, &known->reuse[attr - CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES],
                  sizeof(int));
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      return give(known->release_threshold);
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
      return give(known->reserved_bytes());
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
      return give(known->reserved_bytes_high);
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
      return give(known->used_bytes);
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      return give(known->used_bytes_high);
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

SLUICE_API cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc* map, size_t count) {
  if (const CUresult refused = enter_needing(wire::Fn::cuMemPoolSetAccess, wire::Needs::kInit))
    return refused;
  PoolRef known;
  if (const CUresult bad = find_pool(pool, &known)) return bad;
  if (map == nullptr && count > 0) return CUDA_ERROR_INVALID_VALUE;
  for (std::size_t i = 0; i < count; ++i) {
    if (map[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_INVALID_VALUE;
    // Its own device always has access; no other can get it (cuDeviceCanAccessPeer).
    if (map[i].location.id != known->device) return CUDA_ERROR_INVALID_DEVICE;
    if (map[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE) return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

SLUICE_API cuMemPoolGetAccess(CUmemAccess_flags* flags, CUmemoryPool memPool,
                              CUmemLocation* location) {
  if (const CUresult refused = enter_needing(wire::Fn::cuMemPoolGetAccess, wire::Needs::kInit))
    return refused;
  PoolRef known;
  if (const CUresult bad = find_pool(memPool, &known)) return bad;
  if (flags == nullptr || location == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *flags = location->type == CU_MEM_LOCATION_TYPE_DEVICE && location->id == known->device
               ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
               : CU_MEM_ACCESS_FLAGS_PROT_NONE;
  return CUDA_SUCCESS;
}
