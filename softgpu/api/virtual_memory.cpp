// Virtual memory management: reservations of addresses, physical blocks, and mappings of the one in
// the other. None of these belongs to a context.
#include "common/log.h"
#include "softgpu/api/ranges.h"
#include "softgpu/api/strict.h"

#include <unistd.h>

using namespace sluice::softgpu;

namespace {

constexpr std::uint64_t kHostPageBytes = 4096;

/// The handles that the program holds: each is the address of its block.
class Handles {
 public:
  CUmemGenericAllocationHandle add(const std::shared_ptr<PhysicalBlock>& block) {
    const std::lock_guard lock(mutex_);
    const auto handle = reinterpret_cast<std::uint64_t>(block.get());
    Held& held = held_[handle];
    held.block = block;
    ++held.references;
    return handle;
  }
  std::shared_ptr<PhysicalBlock> find(CUmemGenericAllocationHandle handle) {
    const std::lock_guard lock(mutex_);
    const auto found = held_.find(handle);
    return found != held_.end() ? found->second.block : nullptr;
  }
  bool release(CUmemGenericAllocationHandle handle) {
    const std::lock_guard lock(mutex_);
    const auto found = held_.find(handle);
    if (found == held_.end()) return false;
    if (--found->second.references == 0) held_.erase(found);
    return true;
  }

 private:
  struct Held {
    std::shared_ptr<PhysicalBlock> block;
    int references = 0;
  };
  std::mutex mutex_;
  std::map<CUmemGenericAllocationHandle, Held> held_;
};

Handles& handles() {
  static auto* instance = new Handles;
  return *instance;
}

CUresult check_properties(const CUmemAllocationProp* p) {
  if (p == nullptr || p->type == CU_MEM_ALLOCATION_TYPE_INVALID) return CUDA_ERROR_INVALID_VALUE;
  if (p->type != CU_MEM_ALLOCATION_TYPE_PINNED) return CUDA_ERROR_NOT_SUPPORTED;
  if (p->location.type == CU_MEM_LOCATION_TYPE_INVALID) return CUDA_ERROR_INVALID_VALUE;
  if (p->location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_NOT_SUPPORTED;
  if (device_of(p->location.id) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  const int handle_types = static_cast<int>(p->requestedHandleTypes);
  if ((handle_types & ~CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) != 0)
    return CUDA_ERROR_NOT_SUPPORTED;
  return p->allocFlags.compressionType == 0 && p->allocFlags.usage == 0 ? CUDA_SUCCESS
                                                                        : CUDA_ERROR_NOT_SUPPORTED;
}

/// The caller's device number of the block's device; CU_DEVICE_INVALID if it is not visible here.
CUdevice visible_device(const PhysicalBlock& block) {
  for (const auto& device : state().devices)
    if (device->ordinal == block.properties().ordinal) return ordinal_of(device.get());
  return CU_DEVICE_INVALID;
}

bool to_access(CUmemAccess_flags flags, AddressSpace::Access* out) {
  switch (static_cast<int>(flags)) {
    case CU_MEM_ACCESS_FLAGS_PROT_NONE:
      *out = AddressSpace::Access::kNone;
      return true;
    case CU_MEM_ACCESS_FLAGS_PROT_READ:
      *out = AddressSpace::Access::kRead;
      return true;
    case CU_MEM_ACCESS_FLAGS_PROT_READWRITE:
      *out = AddressSpace::Access::kReadWrite;
      return true;
    default:
      return false;
  }
}

/// Only the device whose memory it is can be given access: peers have none
/// (cuDeviceCanAccessPeer).
CUresult check_access_locations(CUdeviceptr p, std::size_t bytes, const CUmemLocation& location) {
  if (location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_NOT_SUPPORTED;
  if (device_of(location.id) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  for (std::size_t done = 0; done < bytes;) {
    const auto mapping = state().addresses.find(p + done);
    if (!mapping) return CUDA_ERROR_INVALID_VALUE;
    if (visible_device(*mapping->block) != location.id) return CUDA_ERROR_INVALID_DEVICE;
    done += mapping->bytes;
  }
  return CUDA_SUCCESS;
}

/// Work that was issued before may use the addresses.
void wait_for_everything() {
  for (const auto& context : state().contexts.all())
    for (const OperationPtr& operation : pending(*context)) wait_for(operation);
}

}  // namespace

SOFTGPU_API cuMemGetAllocationGranularity(size_t* out, const CUmemAllocationProp* properties,
                                          CUmemAllocationGranularity_flags option) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  SOFTGPU_CHECK(initialised());
  SOFTGPU_CHECK(check_properties(properties));
  if (option != CU_MEM_ALLOC_GRANULARITY_MINIMUM && option != CU_MEM_ALLOC_GRANULARITY_RECOMMENDED)
    return CUDA_ERROR_INVALID_VALUE;
  *out = option == CU_MEM_ALLOC_GRANULARITY_RECOMMENDED ? kHugePageBytes : granularity();
  return CUDA_SUCCESS;
}

SOFTGPU_API cuMemAddressReserve(CUdeviceptr* out, size_t bytes, size_t alignment, CUdeviceptr hint,
                                unsigned long long flags) {
  if (out == nullptr || bytes == 0 || bytes % kHostPageBytes != 0 || flags != 0 ||
      (alignment & (alignment - 1)) != 0 || hint % kHostPageBytes != 0)
    return CUDA_ERROR_INVALID_VALUE;
  SOFTGPU_CHECK(initialised());
  // The address is a hint: a driver may have other plans.
  if (hint != 0 && is_strict() && strict_random().one_in(2)) hint = 0;
  const auto at = state().addresses.reserve(bytes, std::max(alignment, granularity()), hint);
  if (!at) return CUDA_ERROR_OUT_OF_MEMORY;
  *out = *at;
  return CUDA_SUCCESS;
}

SOFTGPU_API cuMemAddressFree(CUdeviceptr p, size_t bytes) {
  SOFTGPU_CHECK(initialised());
  return state().addresses.free(p, bytes) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SOFTGPU_API cuMemCreate(CUmemGenericAllocationHandle* out, size_t bytes,
                        const CUmemAllocationProp* properties, unsigned long long flags) {
  if (out == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  SOFTGPU_CHECK(initialised());
  SOFTGPU_CHECK(check_properties(properties));
  if (bytes == 0 || bytes % granularity() != 0) return CUDA_ERROR_INVALID_VALUE;
  Device& device = *device_of(properties->location.id);
  auto block = PhysicalBlock::create(
      {device.ordinal, bytes, properties->requestedHandleTypes != CU_MEM_HANDLE_TYPE_NONE,
       properties->allocFlags.gpuDirectRDMACapable != 0},
      device.arena->account());
  if (!block) {
    if (block.error().code != sluice::ErrorCode::kExhausted)
      SLUICE_LOG_ERROR("softgpu", "{}", block.error().message);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *out = handles().add(*block);
  return CUDA_SUCCESS;
}

SOFTGPU_API cuMemRelease(CUmemGenericAllocationHandle handle) {
  SOFTGPU_CHECK(initialised());
  return handles().release(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SOFTGPU_API cuMemMap(CUdeviceptr p, size_t bytes, size_t offset,
                     CUmemGenericAllocationHandle handle, unsigned long long flags) {
  SOFTGPU_CHECK(initialised());
  const auto block = handles().find(handle);
  if (block == nullptr || bytes == 0 || bytes % granularity() != 0 || p % granularity() != 0 ||
      offset != 0 || flags != 0)
    return CUDA_ERROR_INVALID_VALUE;
  return state().addresses.map(p, bytes, block) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SOFTGPU_API cuMemUnmap(CUdeviceptr p, size_t bytes) {
  SOFTGPU_CHECK(initialised());
  if (!state().addresses.are_whole_mappings(p, bytes)) return CUDA_ERROR_INVALID_VALUE;
  wait_for_everything();
  return state().addresses.unmap(p, bytes) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SOFTGPU_API cuMemSetAccess(CUdeviceptr p, size_t bytes, const CUmemAccessDesc* access,
                           size_t count) {
  if (access == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
  SOFTGPU_CHECK(initialised());
  if (!state().addresses.are_whole_mappings(p, bytes)) return CUDA_ERROR_INVALID_VALUE;
  AddressSpace::Access wanted{};
  for (std::size_t i = 0; i < count; ++i) {
    if (!to_access(access[i].flags, &wanted)) return CUDA_ERROR_INVALID_VALUE;
    SOFTGPU_CHECK(check_access_locations(p, bytes, access[i].location));
  }
  return state().addresses.set_access(p, bytes, wanted) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SOFTGPU_API cuMemGetAccess(unsigned long long* flags, const CUmemLocation* location,
                           CUdeviceptr p) {
  if (flags == nullptr || location == nullptr) return CUDA_ERROR_INVALID_VALUE;
  SOFTGPU_CHECK(initialised());
  const auto mapping = state().addresses.find(p);
  if (!mapping) return CUDA_ERROR_INVALID_VALUE;
  if (location->type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_NOT_SUPPORTED;
  if (device_of(location->id) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  const bool is_own = visible_device(*mapping->block) == location->id;
  *flags = !is_own || mapping->access == AddressSpace::Access::kNone ? CU_MEM_ACCESS_FLAGS_PROT_NONE
           : mapping->access == AddressSpace::Access::kRead          ? CU_MEM_ACCESS_FLAGS_PROT_READ
                                                            : CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return CUDA_SUCCESS;
}

SOFTGPU_API cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* out, void* address) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  SOFTGPU_CHECK(initialised());
  const auto mapping = state().addresses.find(reinterpret_cast<std::uint64_t>(address));
  if (!mapping) return CUDA_ERROR_INVALID_VALUE;
  *out = handles().add(mapping->block);
  return CUDA_SUCCESS;
}

SOFTGPU_API cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* out,
                                                   CUmemGenericAllocationHandle handle) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  SOFTGPU_CHECK(initialised());
  const auto block = handles().find(handle);
  if (block == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = {};
  out->type = CU_MEM_ALLOCATION_TYPE_PINNED;
  out->location = {CU_MEM_LOCATION_TYPE_DEVICE, visible_device(*block)};
  out->requestedHandleTypes = block->properties().is_exportable
                                  ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
                                  : CU_MEM_HANDLE_TYPE_NONE;
  out->allocFlags.gpuDirectRDMACapable = block->properties().is_rdma_capable ? 1 : 0;
  return CUDA_SUCCESS;
}

SOFTGPU_API cuMemExportToShareableHandle(void* out, CUmemGenericAllocationHandle handle,
                                         CUmemAllocationHandleType type, unsigned long long flags) {
  SOFTGPU_CHECK(initialised());
  const auto block = handles().find(handle);
  if (out == nullptr || block == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
  if (!block->properties().is_exportable) return CUDA_ERROR_INVALID_VALUE;
  auto fd = block->export_fd();
  if (!fd) {
    SLUICE_LOG_ERROR("softgpu", "{}", fd.error().message);
    return CUDA_ERROR_OPERATING_SYSTEM;
  }
  *static_cast<int*>(out) = fd->release();
  return CUDA_SUCCESS;
}

SOFTGPU_API cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* out, void* os_handle,
                                           CUmemAllocationHandleType type) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  SOFTGPU_CHECK(initialised());
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
  auto block = PhysicalBlock::import(static_cast<int>(reinterpret_cast<std::intptr_t>(os_handle)));
  if (!block || (*block)->properties().bytes % granularity() != 0) return CUDA_ERROR_INVALID_VALUE;
  if (visible_device(**block) == CU_DEVICE_INVALID) return CUDA_ERROR_INVALID_DEVICE;
  *out = handles().add(*block);
  return CUDA_SUCCESS;
}
