// Device memory and pinned host memory.
#include "softgpu/api/memory_pool.h"
#include "softgpu/api/ranges.h"

#include <sys/mman.h>

using namespace sluice::softgpu;

namespace {
constexpr std::size_t kPitchAlign = 512;
constexpr std::size_t kPitchMax = 2147483647;  // CU_DEVICE_ATTRIBUTE_MAX_PITCH

}  // namespace

SOFTGPU_API cuMemAlloc_v2(CUdeviceptr* out, size_t bytes) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Context> context;
  SOFTGPU_CHECK(current(&context));
  SOFTGPU_CHECK(refuse_unsafe_call());
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  const auto at = context->device->arena->allocate(bytes, context.get());
  if (!at) return CUDA_ERROR_OUT_OF_MEMORY;
  *out = *at;
  return CUDA_SUCCESS;
}

SOFTGPU_API cuMemAllocPitch_v2(CUdeviceptr* out, size_t* pitch, size_t width, size_t height,
                               unsigned int) {
  if (out == nullptr || pitch == nullptr || width == 0 || height == 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (width > kPitchMax) return CUDA_ERROR_INVALID_VALUE;
  *pitch = (width + kPitchAlign - 1) / kPitchAlign * kPitchAlign;
  std::size_t bytes = 0;
  return __builtin_mul_overflow(*pitch, height, &bytes) ? CUDA_ERROR_OUT_OF_MEMORY
                                                        : cuMemAlloc_v2(out, bytes);
}

SOFTGPU_API cuMemFree_v2(CUdeviceptr p) {
  std::shared_ptr<Context> context;
  SOFTGPU_CHECK(current(&context));
  SOFTGPU_CHECK(refuse_unsafe_call());
  if (p == 0) return CUDA_SUCCESS;
  const auto block = memory_at(p);
  if (!block || block->address != p || !block->device->arena->contains(p))
    return CUDA_ERROR_INVALID_VALUE;
  // Kernels may still use it, in the context that it belongs to or in this one.
  const auto owner = state().contexts.find(block->owner);
  if (owner != nullptr && owner != context) wait_all(*owner, pending(*owner));
  SOFTGPU_CHECK(wait_all(*context, pending(*context)));
  if (const auto pool = pool_of(p))
    return pool->free_now(p) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  if (block->owner == nullptr) return CUDA_ERROR_INVALID_VALUE;  // freed in stream order already
  return block->device->arena->free(p) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SOFTGPU_API cuMemGetInfo_v2(size_t* free_bytes, size_t* total_bytes) {
  if (free_bytes == nullptr || total_bytes == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Context> context;
  SOFTGPU_CHECK(current(&context));
  Account& account = context->device->arena->account();
  const std::size_t used = account.used_bytes();
  *total_bytes = account.capacity_bytes();
  *free_bytes = used < *total_bytes ? *total_bytes - used : 0;
  return CUDA_SUCCESS;
}

SOFTGPU_API cuMemGetAddressRange_v2(CUdeviceptr* base, size_t* size, CUdeviceptr p) {
  SOFTGPU_CHECK(initialised());
  SOFTGPU_CHECK(check_owner(nullptr));
  const auto block = memory_at(p);
  if (!block) return CUDA_ERROR_NOT_FOUND;
  if (base != nullptr) *base = block->address;
  if (size != nullptr) *size = block->bytes;
  return CUDA_SUCCESS;
}

SOFTGPU_API cuMemHostAlloc(void** out, size_t bytes, unsigned int flags) {
  constexpr unsigned kKnown =
      CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
  if (out == nullptr || bytes == 0 || (flags & ~kKnown) != 0) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Context> context;
  SOFTGPU_CHECK(current(&context));
  SOFTGPU_CHECK(refuse_unsafe_call());
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  if (bytes >= (std::size_t{2} << 20)) ::madvise(memory, bytes, MADV_HUGEPAGE);
  State& s = state();
  const std::lock_guard lock(s.host_mutex);
  s.host_ranges[reinterpret_cast<std::uint64_t>(memory)] = HostRange{bytes, flags, true};
  *out = memory;
  return CUDA_SUCCESS;
}

SOFTGPU_API cuMemAllocHost_v2(void** out, size_t bytes) {
  return cuMemHostAlloc(out, bytes, 0);
}

SOFTGPU_API cuMemFreeHost(void* p) {
  std::shared_ptr<Context> context;
  SOFTGPU_CHECK(current(&context));
  SOFTGPU_CHECK(refuse_unsafe_call());
  if (p == nullptr) return CUDA_SUCCESS;
  State& s = state();
  {
    const std::lock_guard lock(s.host_mutex);
    const auto found = s.host_ranges.find(reinterpret_cast<std::uint64_t>(p));
    if (found == s.host_ranges.end() || !found->second.is_ours) return CUDA_ERROR_INVALID_VALUE;
  }
  wait_all(*context, pending(*context));
  const std::lock_guard lock(s.host_mutex);
  const auto found = s.host_ranges.find(reinterpret_cast<std::uint64_t>(p));
  if (found == s.host_ranges.end()) return CUDA_ERROR_INVALID_VALUE;
  ::munmap(p, found->second.bytes);
  s.host_ranges.erase(found);
  return CUDA_SUCCESS;
}

SOFTGPU_API cuMemHostRegister_v2(void* p, size_t bytes, unsigned int flags) {
  constexpr unsigned kKnown = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP;
  constexpr unsigned kOthers = CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY;
  if (p == nullptr || bytes == 0 || (flags & ~(kKnown | kOthers)) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (reinterpret_cast<std::uint64_t>(p) + bytes < bytes) return CUDA_ERROR_INVALID_VALUE;
  if ((flags & kOthers) != 0) return CUDA_ERROR_NOT_SUPPORTED;
  std::shared_ptr<Context> context;
  SOFTGPU_CHECK(current(&context));
  SOFTGPU_CHECK(refuse_unsafe_call());
  State& s = state();
  const std::lock_guard lock(s.host_mutex);
  const auto begin = reinterpret_cast<std::uint64_t>(p);
  const auto after = s.host_ranges.lower_bound(begin);
  const bool overlaps_next = after != s.host_ranges.end() && after->first < begin + bytes;
  const bool overlaps_previous = after != s.host_ranges.begin() &&
                                 std::prev(after)->first + std::prev(after)->second.bytes > begin;
  if (overlaps_next || overlaps_previous) return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  s.host_ranges[begin] = HostRange{bytes, flags, false};
  return CUDA_SUCCESS;
}

SOFTGPU_API cuMemHostUnregister(void* p) {
  std::shared_ptr<Context> context;
  SOFTGPU_CHECK(current(&context));
  SOFTGPU_CHECK(refuse_unsafe_call());
  wait_all(*context, pending(*context));
  State& s = state();
  const std::lock_guard lock(s.host_mutex);
  const auto found = s.host_ranges.find(reinterpret_cast<std::uint64_t>(p));
  if (found == s.host_ranges.end() || found->second.is_ours)
    return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
  s.host_ranges.erase(found);
  return CUDA_SUCCESS;
}

SOFTGPU_API cuMemHostGetFlags(unsigned int* flags, void* p) {
  SOFTGPU_CHECK(initialised());
  SOFTGPU_CHECK(check_owner(nullptr));
  if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
  State& s = state();
  const std::lock_guard lock(s.host_mutex);
  const auto found = s.host_ranges.find(reinterpret_cast<std::uint64_t>(p));
  if (found == s.host_ranges.end()) return CUDA_ERROR_INVALID_VALUE;
  *flags = found->second.flags;
  return CUDA_SUCCESS;
}

SOFTGPU_API cuMemHostGetDevicePointer_v2(CUdeviceptr* out, void* p, unsigned int) {
  SOFTGPU_CHECK(initialised());
  SOFTGPU_CHECK(check_owner(nullptr));
  if (out == nullptr || !is_pinned(p, 1)) return CUDA_ERROR_INVALID_VALUE;
  *out =
      reinterpret_cast<CUdeviceptr>(p);  // kernels run in this process: host memory is theirs too
  return CUDA_SUCCESS;
}
