// Stream-ordered memory. Which pool is a device's current one is known here; the pools themselves
// are the driver's.
#include "protocol/memory_pool.h"

#include "shim/api.h"

#include <array>
#include <cstring>
#include <mutex>

using namespace sluice;
using namespace sluice::shim;

namespace {

/// The device of a pool is behind its handle, as its number plus one.
CUdevice device_of(const Entry& pool) {
  return static_cast<CUdevice>(reinterpret_cast<std::uintptr_t>(pool.object)) - 1;
}

CUmemoryPool publish_pool(std::uint64_t id, CUdevice device) {
  Entry entry;
  entry.id = id;
  entry.object = reinterpret_cast<void*>(static_cast<std::uintptr_t>(device) + 1);
  return new_handle<CUmemoryPool>(entry);
}

CUresult find_pool(CUmemoryPool handle, Entry* entry) {
  return handle != nullptr && handles().find(Kind::kPool, handle_bits(handle), entry)
             ? CUDA_SUCCESS
             : CUDA_ERROR_INVALID_VALUE;
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
  if (pools.standard == nullptr) {
    wire::pool_default args{};
    args.pool = reserve_id();
    args.device = session().devices().ordinal(device);
    wire::pool_default::Reply reply{};
    if (const CUresult failed = call(args, reply)) return failed;
    pools.standard = publish_pool(args.pool, device);
  }
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
  Entry entry;
  if (const CUresult bad = find_pool(handle, &entry)) return bad;
  if (device_of(entry) != device) return CUDA_ERROR_INVALID_VALUE;
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

CUresult allocate(CUdeviceptr* out, std::size_t bytes, CUmemoryPool pool, CUstream handle) {
  if (out == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  Entry entry;
  if (const CUresult bad = find_pool(pool, &entry)) return bad;
  Stream* stream = nullptr;
  if (const CUresult bad = find_stream(handle, &stream)) return bad;
  // Memory nodes of graphs are not carried.
  if (stream->is_capturing.load()) return unsupported(thread_state().fn);
  if (const CUresult bad = use_stream(handle, &stream)) return bad;
  wire::pool_alloc args{};
  args.pool = entry.id;
  args.bytes = bytes;
  args.stream = stream->id;
  wire::pool_alloc::Reply reply{};
  if (const CUresult failed = call_with_spare(args, reply)) return failed;
  session().addresses().add_device(
      {.base = reply.address, .bytes = bytes, .context = current_context(), .pool = pool});
  *out = reply.address;
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
  wire::pool_create args{};
  args.pool = reserve_id();
  args.max_bytes = poolProps->maxSize;
  args.device = session().devices().ordinal(device);
  wire::pool_create::Reply reply{};
  if (const CUresult failed = call(args, reply)) return failed;
  *pool = publish_pool(args.pool, device);
  return CUDA_SUCCESS;
}

SLUICE_API cuMemPoolDestroy(CUmemoryPool pool) {
  if (const CUresult refused = enter_needing(wire::Fn::cuMemPoolDestroy, wire::Needs::kInit))
    return refused;
  Entry entry;
  if (const CUresult bad = find_pool(pool, &entry)) return bad;
  {
    DevicePools& pools = session().device_pools(device_of(entry));
    std::lock_guard lock(pools.mutex);
    if (pool == pools.standard) return CUDA_ERROR_INVALID_VALUE;
    if (pool == pools.current) pools.current = nullptr;
  }
  if (!handles().remove(Kind::kPool, handle_bits(pool), &entry)) return CUDA_ERROR_INVALID_VALUE;
  wire::pool_destroy args{};
  args.pool = entry.id;
  return post(args);
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
  if (const CUresult bad = use_stream(hStream, &stream)) return bad;
  if (!session().addresses().remove_device(dptr)) return CUDA_ERROR_INVALID_VALUE;
  // Memory of cuMemAlloc may go this way, too.
  if (known->pool == nullptr) return session().memory().free(*known->context, dptr);
  wire::cuMemFreeAsync args{};
  args.dptr = dptr;
  args.hStream = stream->id;
  return post(args);
}

SLUICE_API cuMemPoolTrimTo(CUmemoryPool pool, size_t minBytesToKeep) {
  if (const CUresult refused = enter_needing(wire::Fn::cuMemPoolTrimTo, wire::Needs::kInit))
    return refused;
  Entry entry;
  if (const CUresult bad = find_pool(pool, &entry)) return bad;
  wire::pool_trim args{};
  args.pool = entry.id;
  args.keep_bytes = minBytesToKeep;
  wire::pool_trim::Reply reply{};
  return call(args, reply);
}

namespace {

bool is_int(CUmemPool_attribute attribute) {
  switch (attribute) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
      return true;
    default:
      return false;
  }
}

bool is_known(CUmemPool_attribute attribute) {
  return attribute >= CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES &&
         attribute <= CU_MEMPOOL_ATTR_USED_MEM_HIGH;
}

}  // namespace

SLUICE_API cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void* value) {
  if (const CUresult refused = enter_needing(wire::Fn::cuMemPoolSetAttribute, wire::Needs::kInit))
    return refused;
  Entry entry;
  if (const CUresult bad = find_pool(pool, &entry)) return bad;
  if (value == nullptr || !is_known(attr)) return CUDA_ERROR_INVALID_VALUE;
  wire::pool_set args{};
  args.pool = entry.id;
  args.attribute = static_cast<std::uint32_t>(attr);
  std::memcpy(&args.value, value, is_int(attr) ? sizeof(int) : sizeof(cuuint64_t));
  wire::pool_set::Reply reply{};
  return call(args, reply);
}

SLUICE_API cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void* value) {
  if (const CUresult refused = enter_needing(wire::Fn::cuMemPoolGetAttribute, wire::Needs::kInit))
    return refused;
  Entry entry;
  if (const CUresult bad = find_pool(pool, &entry)) return bad;
  if (value == nullptr || !is_known(attr)) return CUDA_ERROR_INVALID_VALUE;
  wire::pool_get args{};
  args.pool = entry.id;
  args.attribute = static_cast<std::uint32_t>(attr);
  wire::pool_get::Reply reply{};
  if (const CUresult failed = call(args, reply)) return failed;
  std::memcpy(value, &reply.value, is_int(attr) ? sizeof(int) : sizeof(cuuint64_t));
  return CUDA_SUCCESS;
}

SLUICE_API cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc* map, size_t count) {
  if (const CUresult refused = enter_needing(wire::Fn::cuMemPoolSetAccess, wire::Needs::kInit))
    return refused;
  Entry entry;
  if (const CUresult bad = find_pool(pool, &entry)) return bad;
  if (map == nullptr && count > 0) return CUDA_ERROR_INVALID_VALUE;
  for (std::size_t i = 0; i < count; ++i) {
    if (map[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_INVALID_VALUE;
    // Its own device always has access; no other can get it (cuDeviceCanAccessPeer).
    if (map[i].location.id != device_of(entry)) return CUDA_ERROR_INVALID_DEVICE;
    if (map[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE) return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

SLUICE_API cuMemPoolGetAccess(CUmemAccess_flags* flags, CUmemoryPool memPool,
                              CUmemLocation* location) {
  if (const CUresult refused = enter_needing(wire::Fn::cuMemPoolGetAccess, wire::Needs::kInit))
    return refused;
  Entry entry;
  if (const CUresult bad = find_pool(memPool, &entry)) return bad;
  if (flags == nullptr || location == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *flags = location->type == CU_MEM_LOCATION_TYPE_DEVICE && location->id == device_of(entry)
               ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
               : CU_MEM_ACCESS_FLAGS_PROT_NONE;
  return CUDA_SUCCESS;
}
