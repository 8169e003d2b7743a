// What can be asked about addresses.
#include "softgpu/api/memory_pool.h"
#include "softgpu/api/ranges.h"

#include <cstring>

using namespace sluice::softgpu;

namespace {

/// Size of an attribute's value; 0 for those that are not supported.
std::size_t bytes_of(CUpointer_attribute attribute) {
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_MAPPED:
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      return 4;
    case CU_POINTER_ATTRIBUTE_CONTEXT:
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      return 8;
    default:
      return 0;
  }
}

std::uint64_t shareable_types(CUdeviceptr p) {
  const auto mapping = state().addresses.find(p);
  return mapping && mapping->block->properties().is_exportable
             ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
             : CU_MEM_HANDLE_TYPE_NONE;
}

unsigned access_to(CUdeviceptr p) {
  const auto mapping = state().addresses.find(p);
  if (!mapping || mapping->access == AddressSpace::Access::kReadWrite)
    return CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE;
  return mapping->access == AddressSpace::Access::kRead ? CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READ
                                                        : CU_POINTER_ATTRIBUTE_ACCESS_FLAG_NONE;
}

/// The handle of the pool that allocated it; null if there is none or it has been destroyed.
std::uint64_t pool_handle(CUdeviceptr base) {
  const auto pool = pool_of(base);
  return pool != nullptr && state().pools.find(pool.get()) != nullptr
             ? reinterpret_cast<std::uint64_t>(pool.get())
             : 0;
}

/// `range` is empty for pinned host memory.
CUresult value_of(CUpointer_attribute attribute, CUdeviceptr p,
                  const std::optional<MemoryRange>& range, std::uint64_t* out) {
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      *out = range ? reinterpret_cast<std::uint64_t>(range->owner) : 0;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      *out = range ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      *out = p;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      *out = p;
      return range && !range->is_managed ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      *out = range && range->is_managed ? 1 : 0;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPED:
      *out = 1;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:  // pinned memory belongs to the first
      *out = range && range->device != nullptr
                 ? static_cast<std::uint64_t>(ordinal_of(range->device))
                 : 0;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      *out = range ? range->address : 0;
      return range ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      *out = range ? range->bytes : 0;
      return range ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      *out = range ? range->address : p;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
      *out = shareable_types(p);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      *out = access_to(p);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      *out = range ? pool_handle(range->address) : 0;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
      *out = 0;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}

}  // namespace

SOFTGPU_API cuPointerGetAttribute(void* out, CUpointer_attribute attribute, CUdeviceptr p) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  SOFTGPU_CHECK(initialised());
  const auto range = memory_at(p);
  if (!range && !is_pinned(reinterpret_cast<void*>(p), 1)) return CUDA_ERROR_INVALID_VALUE;
  std::uint64_t value = 0;
  SOFTGPU_CHECK(value_of(attribute, p, range, &value));
  std::memcpy(out, &value, bytes_of(attribute));
  return CUDA_SUCCESS;
}

// Unlike the call for one attribute, a stranger's address is no error here: its values are zero.
SOFTGPU_API cuPointerGetAttributes(unsigned int count, CUpointer_attribute* attributes, void** out,
                                   CUdeviceptr p) {
  if (attributes == nullptr || out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  SOFTGPU_CHECK(initialised());
  for (unsigned i = 0; i < count; ++i) {
    if (out[i] == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (bytes_of(attributes[i]) == 0) return CUDA_ERROR_NOT_SUPPORTED;
    std::memset(out[i], 0, bytes_of(attributes[i]));
    if (cuPointerGetAttribute(out[i], attributes[i], p) != CUDA_SUCCESS &&
        attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
      *static_cast<int*>(out[i]) = CU_DEVICE_INVALID;
  }
  return CUDA_SUCCESS;
}
