// Virtual memory management: reservations are free, physical memory is charged.
#include "server/cuda/deferred.h"

namespace sluice::server {
namespace {

CUmemLocation location_of(std::uint32_t device) {
  CUmemLocation location{};
  location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  location.id = static_cast<int>(device);
  return location;
}

CUmemAllocationProp properties_of(std::uint32_t device, std::uint32_t rdma_capable) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = location_of(device);
  properties.allocFlags.gpuDirectRDMACapable = static_cast<unsigned char>(rdma_capable != 0);
  return properties;
}

/// Refunds the block if nobody has it any more. memory_mutex is held.
void drop_if_unused(Worker& worker, std::map<std::uint64_t, Worker::Block>::iterator block) {
  if (!block->second.is_released || block->second.mappings != 0) return;
  worker.memory().give_back({block->second.device, MemoryKind::kData, block->second.bytes});
  worker.blocks.erase(block);
}

}  // namespace

CUresult handle(Call& call, const wire::vm_granularity& args, wire::vm_granularity::Reply& reply) {
  const DriverTable& driver = call.driver();
  if (driver.cuMemGetAllocationGranularity == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  const CUmemAllocationProp properties = properties_of(args.device, 0);
  std::size_t bytes = 0;
  const CUresult result = driver.cuMemGetAllocationGranularity(
      &bytes, &properties, static_cast<CUmemAllocationGranularity_flags>(args.option));
  reply.bytes = bytes;
  return result;
}

CUresult handle(Call& call, const wire::cuMemAddressReserve& args,
                wire::cuMemAddressReserve::Reply& reply) {
  const DriverTable& driver = call.driver();
  if (driver.cuMemAddressReserve == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  CUdeviceptr address = 0;
  const CUresult result =
      driver.cuMemAddressReserve(&address, args.size, args.alignment, args.addr, args.flags);
  reply.ptr = address;
  return result;
}

CUresult handle(Call& call, const wire::cuMemAddressFree& args, wire::cuMemAddressFree::Reply&) {
  if (call.driver().cuMemAddressFree == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  return call.driver().cuMemAddressFree(args.ptr, args.size);
}

CUresult handle(Call& call, const wire::vm_create& args, wire::vm_create::Reply&) {
  Worker& worker = call.worker();
  const DriverTable& driver = call.driver();
  if (driver.cuMemCreate == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  const CUmemAllocationProp properties = properties_of(args.device, args.rdma_capable);
  CUdevice device{};
  if (const CUresult bad = driver.cuDeviceGet(&device, static_cast<int>(args.device))) return bad;
  if (args.bytes > (std::uint64_t{1} << 47)) return CUDA_ERROR_OUT_OF_MEMORY;
  {
    const std::lock_guard lock(worker.memory_mutex);
    if (args.block == 0 || worker.blocks.contains(args.block)) return CUDA_ERROR_INVALID_VALUE;
  }
  return worker.memory().draw({args.device, MemoryKind::kData, args.bytes}, [&] {
    Worker::Block block{.bytes = args.bytes, .device = args.device};
    const CUresult result = driver.cuMemCreate(&block.handle, args.bytes, &properties, 0);
    if (result == CUDA_SUCCESS) worker.blocks[args.block] = block;
    return result;
  });
}

CUresult handle(Call& call, const wire::vm_release& args, wire::vm_release::Reply&) {
  Worker& worker = call.worker();
  const std::lock_guard lock(worker.memory_mutex);
  const auto found = worker.blocks.find(args.block);
  if (found == worker.blocks.end() || found->second.is_released) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult bad = call.driver().cuMemRelease(found->second.handle)) return bad;
  found->second.is_released = true;
  drop_if_unused(worker, found);
  return CUDA_SUCCESS;
}

CUresult handle(Call& call, const wire::vm_map& args, wire::vm_map::Reply&) {
  Worker& worker = call.worker();
  const std::lock_guard lock(worker.memory_mutex);
  const auto found = worker.blocks.find(args.block);
  if (found == worker.blocks.end() || found->second.is_released) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult bad =
          call.driver().cuMemMap(args.address, args.bytes, args.offset, found->second.handle, 0))
    return bad;
  ++found->second.mappings;
  worker.mappings[args.address] = {args.bytes, args.block};
  return CUDA_SUCCESS;
}

CUresult handle(Call& call, const wire::cuMemUnmap& args, wire::cuMemUnmap::Reply&) {
  Worker& worker = call.worker();
  const auto unmap = [&worker, address = args.ptr, bytes = args.size](CUresult, auto&) {
    const std::lock_guard lock(worker.memory_mutex);
    if (const CUresult bad = worker.driver().cuMemUnmap(address, bytes)) return bad;
    auto at = worker.mappings.lower_bound(address);
    while (at != worker.mappings.end() && at->first - address < bytes) {
      const auto block = worker.blocks.find(at->second.block);
      if (block != worker.blocks.end()) {
        --block->second.mappings;
        drop_if_unused(worker, block);
      }
      at = worker.mappings.erase(at);
    }
    return CUDA_SUCCESS;
  };
  wire::cuMemUnmap::Reply reply{};
  if (worker.current() == nullptr) return unmap(CUDA_SUCCESS, reply);
  worker.after_context(answering<wire::cuMemUnmap>(call, unmap));
  return CUDA_SUCCESS;
}

CUresult handle(Call& call, const wire::vm_set_access& args, wire::vm_set_access::Reply&) {
  if (call.driver().cuMemSetAccess == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  CUmemAccessDesc access{};
  access.location = location_of(args.device);
  access.flags = static_cast<CUmemAccess_flags>(args.flags);
  return call.driver().cuMemSetAccess(args.address, args.bytes, &access, 1);
}

CUresult handle(Call& call, const wire::vm_get_access& args, wire::vm_get_access::Reply& reply) {
  if (call.driver().cuMemGetAccess == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  const CUmemLocation location = location_of(args.device);
  unsigned long long flags = 0;
  const CUresult result = call.driver().cuMemGetAccess(&flags, &location, args.address);
  reply.flags = flags;
  return result;
}

}  // namespace sluice::server
