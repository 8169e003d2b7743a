// Stream-ordered memory: the driver's pools, charged by what they hold (server/worker/pools.h).
#include "server/cuda/deferred.h"

namespace sluice::server {
namespace {

constexpr std::uint64_t kChargeGranularity = 512;

CUresult allocate(Worker& worker, CUmemoryPool pool, std::uint64_t bytes, CUstream stream,
                  CUdeviceptr* out) {
  const std::uint64_t charge =
      (bytes + kChargeGranularity - 1) / kChargeGranularity * kChargeGranularity;
  if (!worker.pools().charge(pool, charge)) return CUDA_ERROR_OUT_OF_MEMORY;
  const CUresult result = worker.driver().cuMemAllocFromPoolAsync(out, bytes, pool, stream);
  if (result != CUDA_SUCCESS) {
    worker.pools().undo(pool, charge);
    return result;
  }
  const std::uint32_t device = worker.current_device();
  const std::lock_guard lock(worker.memory_mutex);
  worker.note_allocation(*out, {device, charge, worker.current(), pool});
  return CUDA_SUCCESS;
}

}  // namespace

CUresult handle(Call& call, const wire::pool_default& args, wire::pool_default::Reply&) {
  const DriverTable& driver = call.driver();
  if (driver.cuDeviceGetDefaultMemPool == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  if (!can_bind<CUmemoryPool>(call, args.pool)) return CUDA_ERROR_INVALID_VALUE;
  CUdevice device{};
  if (const CUresult bad = driver.cuDeviceGet(&device, static_cast<int>(args.device))) return bad;
  CUmemoryPool pool = nullptr;
  if (const CUresult bad = driver.cuDeviceGetDefaultMemPool(&pool, device)) return bad;
  call.worker().pools().add(pool, args.device);
  return bind(call, args.pool, pool);
}

CUresult handle(Call& call, const wire::pool_create& args, wire::pool_create::Reply&) {
  const DriverTable& driver = call.driver();
  if (driver.cuMemPoolCreate == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  if (!can_bind<CUmemoryPool>(call, args.pool)) return CUDA_ERROR_INVALID_VALUE;
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.handleTypes = CU_MEM_HANDLE_TYPE_NONE;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = static_cast<int>(args.device);
  properties.maxSize = args.max_bytes;
  CUmemoryPool pool = nullptr;
  if (const CUresult bad = driver.cuMemPoolCreate(&pool, &properties)) return bad;
  call.worker().pools().add(pool, args.device);
  return bind(call, args.pool, pool);
}

CUresult handle(Call& call, const wire::pool_destroy& args, wire::pool_destroy::Reply&) {
  CUmemoryPool pool = nullptr;
  if (const CUresult bad = native(call, args.pool, &pool)) return bad;
  if (pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
  unbind<CUmemoryPool>(call, args.pool);
  call.worker().pools().remove(pool);
  {
    // What is still in use is refunded when it is freed, by its device.
    const std::lock_guard lock(call.worker().memory_mutex);
    for (auto& [address, allocation] : call.worker().allocations)
      if (allocation.pool == pool) allocation.pool = nullptr;
  }
  return call.driver().cuMemPoolDestroy(pool);
}

CUresult handle(Call& call, const wire::pool_alloc& args, wire::pool_alloc::Reply& reply) {
  Worker& worker = call.worker();
  CUmemoryPool pool = nullptr;
  CUstream stream = nullptr;
  if (const CUresult bad = native(call, args.pool, &pool)) return bad;
  if (const CUresult bad = native(call, args.stream, &stream)) return bad;
  if (pool == nullptr || args.bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (args.bytes > (std::uint64_t{1} << 47)) return CUDA_ERROR_OUT_OF_MEMORY;
  CUdeviceptr address = 0;
  const CUresult result = allocate(worker, pool, args.bytes, stream, &address);
  reply.address = address;
  if (result != CUDA_ERROR_OUT_OF_MEMORY || worker.pending_frees == 0) return result;
  // Frees that are still on their way are waited for before memory is refused.
  worker.after_context(answering<wire::pool_alloc>(
      call,
      [&worker, pool, stream, bytes = args.bytes](CUresult before, wire::pool_alloc::Reply& late) {
        if (before != CUDA_SUCCESS) return before;
        CUdeviceptr p = 0;
        const CUresult done = allocate(worker, pool, bytes, stream, &p);
        late.address = p;
        return done;
      }));
  return CUDA_SUCCESS;
}

CUresult handle(Call& call, const wire::cuMemFreeAsync& args, wire::cuMemFreeAsync::Reply&) {
  Worker& worker = call.worker();
  const DriverTable& driver = call.driver();
  if (driver.cuMemFreeAsync == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  CUstream stream = nullptr;
  if (const CUresult bad = native(call, args.hStream, &stream)) return bad;
  Worker::Allocation freed{};
  {
    const std::lock_guard lock(worker.memory_mutex);
    const auto found = worker.allocations.find(args.dptr);
    if (found == worker.allocations.end()) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult bad = driver.cuMemFreeAsync(args.dptr, stream)) return bad;
    freed = found->second;
    // The driver may give the address to the next allocation of the stream at once.
    worker.allocations.erase(found);
  }
  ++worker.pending_frees;
  worker.after_stream(stream, Completer::Kind::kAnswer, [&worker, freed](CUresult) {
    const std::lock_guard lock(worker.memory_mutex);
    worker.refund(freed);
    --worker.pending_frees;
  });
  return CUDA_SUCCESS;
}

CUresult handle(Call& call, const wire::pool_trim& args, wire::pool_trim::Reply&) {
  CUmemoryPool pool = nullptr;
  if (const CUresult bad = native(call, args.pool, &pool)) return bad;
  return call.worker().pools().trim(pool, args.keep_bytes);
}

CUresult handle(Call& call, const wire::pool_set& args, wire::pool_set::Reply&) {
  CUmemoryPool pool = nullptr;
  if (const CUresult bad = native(call, args.pool, &pool)) return bad;
  const auto attribute = static_cast<CUmemPool_attribute>(args.attribute);
  if (attribute == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) {
    call.worker().pools().set_threshold(pool, args.value);
    return CUDA_SUCCESS;
  }
  cuuint64_t value = args.value;  // an int where the attribute is one: little-endian
  return call.driver().cuMemPoolSetAttribute(pool, attribute, &value);
}

CUresult handle(Call& call, const wire::pool_get& args, wire::pool_get::Reply& reply) {
  CUmemoryPool pool = nullptr;
  if (const CUresult bad = native(call, args.pool, &pool)) return bad;
  const auto attribute = static_cast<CUmemPool_attribute>(args.attribute);
  if (attribute == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) {
    reply.value = call.worker().pools().threshold(pool);
    return CUDA_SUCCESS;
  }
  cuuint64_t value = 0;
  const CUresult result = call.driver().cuMemPoolGetAttribute(pool, attribute, &value);
  reply.value = value;
  return result;
}

}  // namespace sluice::server
