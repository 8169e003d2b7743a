// Virtual memory management: handles of physical memory and the map of what is mapped where are
// kept here, addresses and memory are the driver's.
#include "protocol/virtual_memory.h"

#include "shim/api.h"

#include <map>
#include <memory>
#include <mutex>

using namespace sluice;
using namespace sluice::shim;

namespace {

struct Mapping {
  std::size_t bytes = 0;
  CUmemGenericAllocationHandle handle = 0;
  std::shared_ptr<MemoryBlock> block;
};

struct Mappings {
  std::mutex mutex;
  std::map<CUdeviceptr, Mapping> by_address;
};

Mappings& mappings() {
  static Mappings* const all = new Mappings;
  return *all;
}

MemoryBlock* block_of(CUmemGenericAllocationHandle handle) {
  Entry entry;
  return handles().find(Kind::kMemoryBlock, handle, &entry)
             ? static_cast<std::shared_ptr<MemoryBlock>*>(entry.object)->get()
             : nullptr;
}

CUresult check_properties(const CUmemAllocationProp* prop) {
  if (prop == nullptr || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED)
    return CUDA_ERROR_INVALID_VALUE;
  if (prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_NOT_SUPPORTED;
  if (!session().devices().has(prop->location.id)) return CUDA_ERROR_INVALID_DEVICE;
  if (prop->requestedHandleTypes != CU_MEM_HANDLE_TYPE_NONE ||
      prop->allocFlags.compressionType != CU_MEM_ALLOCATION_COMP_NONE)
    return unsupported(thread_state().fn);
  return CUDA_SUCCESS;
}

}  // namespace

SLUICE_API cuMemGetAllocationGranularity(size_t* granularity, const CUmemAllocationProp* prop,
                                         CUmemAllocationGranularity_flags option) {
  if (const CUresult refused =
          enter_needing(wire::Fn::cuMemGetAllocationGranularity, wire::Needs::kInit))
    return refused;
  if (granularity == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult bad = check_properties(prop)) return bad;
  wire::vm_granularity args{};
  args.device = session().devices().ordinal(prop->location.id);
  args.option = static_cast<std::uint32_t>(option);
  wire::vm_granularity::Reply reply{};
  if (const CUresult failed = call(args, reply)) return failed;
  *granularity = reply.bytes;
  return CUDA_SUCCESS;
}

SLUICE_API cuMemAddressReserve(CUdeviceptr* ptr, size_t size, size_t alignment, CUdeviceptr addr,
                               unsigned long long flags) {
  if (const CUresult refused = enter_needing(wire::Fn::cuMemAddressReserve, wire::Needs::kInit))
    return refused;
  if (ptr == nullptr || size == 0) return CUDA_ERROR_INVALID_VALUE;
  wire::cuMemAddressReserve args{};
  args.size = size;
  args.alignment = alignment;
  args.addr = addr;
  args.flags = flags;
  wire::cuMemAddressReserve::Reply reply{};
  if (const CUresult failed = call(args, reply)) return failed;
  session().addresses().add_reserved(reply.ptr, size);
  *ptr = reply.ptr;
  return CUDA_SUCCESS;
}

SLUICE_API cuMemAddressFree(CUdeviceptr ptr, size_t size) {
  if (const CUresult refused = enter_needing(wire::Fn::cuMemAddressFree, wire::Needs::kInit))
    return refused;
  wire::cuMemAddressFree args{};
  args.ptr = ptr;
  args.size = size;
  wire::cuMemAddressFree::Reply reply{};
  if (const CUresult failed = call(args, reply)) return failed;
  session().addresses().remove_reserved(ptr);
  return CUDA_SUCCESS;
}

SLUICE_API cuMemCreate(CUmemGenericAllocationHandle* handle, size_t size,
                       const CUmemAllocationProp* prop, unsigned long long flags) {
  if (const CUresult refused = enter_needing(wire::Fn::cuMemCreate, wire::Needs::kInit))
    return refused;
  if (handle == nullptr || size == 0 || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult bad = check_properties(prop)) return bad;
  wire::vm_create args{};
  args.block = reserve_id();
  args.bytes = size;
  args.device = session().devices().ordinal(prop->location.id);
  args.rdma_capable = prop->allocFlags.gpuDirectRDMACapable;
  wire::vm_create::Reply reply{};
  if (const CUresult failed = call_with_spare(args, reply)) return failed;
  auto block = std::make_shared<MemoryBlock>();
  block->id = args.block;
  block->properties = *prop;
  Entry entry;
  entry.id = args.block;
  entry.object = new std::shared_ptr<MemoryBlock>(std::move(block));
  *handle = handles().add(Kind::kMemoryBlock, entry);
  return *handle != 0 ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

SLUICE_API cuMemRelease(CUmemGenericAllocationHandle handle) {
  if (const CUresult refused = enter_needing(wire::Fn::cuMemRelease, wire::Needs::kInit))
    return refused;
  MemoryBlock* block = block_of(handle);
  if (block == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (block->references.fetch_sub(1) > 1) return CUDA_SUCCESS;
  Entry entry;
  if (!handles().remove(Kind::kMemoryBlock, handle, &entry)) return CUDA_ERROR_INVALID_VALUE;
  drop_object(Kind::kMemoryBlock, entry);
  wire::vm_release args{};
  args.block = entry.id;
  wire::vm_release::Reply reply{};
  return call(args, reply);
}

SLUICE_API cuMemMap(CUdeviceptr ptr, size_t size, size_t offset,
                    CUmemGenericAllocationHandle handle, unsigned long long flags) {
  if (const CUresult refused = enter_needing(wire::Fn::cuMemMap, wire::Needs::kInit))
    return refused;
  Entry entry;
  if (flags != 0 || !handles().find(Kind::kMemoryBlock, handle, &entry))
    return CUDA_ERROR_INVALID_VALUE;
  wire::vm_map args{};
  args.address = ptr;
  args.bytes = size;
  args.offset = offset;
  args.block = entry.id;
  wire::vm_map::Reply reply{};
  if (const CUresult failed = call(args, reply)) return failed;
  const auto& block = *static_cast<std::shared_ptr<MemoryBlock>*>(entry.object);
  session().addresses().add_device({.base = ptr,
                                    .bytes = size,
                                    .is_variable = true,
                                    .is_mapped = true,
                                    .device = block->properties.location.id});
  std::lock_guard lock(mappings().mutex);
  mappings().by_address[ptr] = {size, handle, block};
  return CUDA_SUCCESS;
}

SLUICE_API cuMemUnmap(CUdeviceptr ptr, size_t size) {
  if (const CUresult refused = enter_needing(wire::Fn::cuMemUnmap, wire::Needs::kInit))
    return refused;
  wire::cuMemUnmap args{};
  args.ptr = ptr;
  args.size = size;
  wire::cuMemUnmap::Reply reply{};
  if (const CUresult failed = call(args, reply)) return failed;
  std::lock_guard lock(mappings().mutex);
  auto& all = mappings().by_address;
  for (auto at = all.lower_bound(ptr); at != all.end() && at->first < ptr + size;) {
    session().addresses().remove_device(at->first);
    at = all.erase(at);
  }
  return CUDA_SUCCESS;
}

SLUICE_API cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc* desc, size_t count) {
  if (const CUresult refused = enter_needing(wire::Fn::cuMemSetAccess, wire::Needs::kInit))
    return refused;
  if (desc == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
  for (std::size_t i = 0; i < count; ++i) {
    if (desc[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_NOT_SUPPORTED;
    if (!session().devices().has(desc[i].location.id)) return CUDA_ERROR_INVALID_DEVICE;
    wire::vm_set_access args{};
    args.address = ptr;
    args.bytes = size;
    args.device = session().devices().ordinal(desc[i].location.id);
    args.flags = static_cast<std::uint32_t>(desc[i].flags);
    wire::vm_set_access::Reply reply{};
    if (const CUresult failed = call(args, reply)) return failed;
  }
  return CUDA_SUCCESS;
}

SLUICE_API cuMemGetAccess(unsigned long long* flags, const CUmemLocation* location,
                          CUdeviceptr ptr) {
  if (const CUresult refused = enter_needing(wire::Fn::cuMemGetAccess, wire::Needs::kInit))
    return refused;
  if (flags == nullptr || location == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (location->type != CU_MEM_LOCATION_TYPE_DEVICE || !session().devices().has(location->id))
    return CUDA_ERROR_INVALID_DEVICE;
  wire::vm_get_access args{};
  args.address = ptr;
  args.device = session().devices().ordinal(location->id);
  wire::vm_get_access::Reply reply{};
  if (const CUresult failed = call(args, reply)) return failed;
  *flags = reply.flags;
  return CUDA_SUCCESS;
}

SLUICE_API cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* addr) {
  if (const CUresult refused =
          enter_needing(wire::Fn::cuMemRetainAllocationHandle, wire::Needs::kInit))
    return refused;
  if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto address = reinterpret_cast<CUdeviceptr>(addr);
  std::lock_guard lock(mappings().mutex);
  auto at = mappings().by_address.upper_bound(address);
  if (at == mappings().by_address.begin()) return CUDA_ERROR_INVALID_VALUE;
  --at;
  if (address - at->first >= at->second.bytes) return CUDA_ERROR_INVALID_VALUE;
  // A handle that was released altogether cannot be named again.
  if (block_of(at->second.handle) != at->second.block.get())
    return unsupported(wire::Fn::cuMemRetainAllocationHandle);
  at->second.block->references.fetch_add(1);
  *handle = at->second.handle;
  return CUDA_SUCCESS;
}

SLUICE_API cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* prop,
                                                  CUmemGenericAllocationHandle handle) {
  if (const CUresult refused =
          enter_needing(wire::Fn::cuMemGetAllocationPropertiesFromHandle, wire::Needs::kInit))
    return refused;
  const MemoryBlock* block = block_of(handle);
  if (prop == nullptr || block == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *prop = block->properties;
  return CUDA_SUCCESS;
}
