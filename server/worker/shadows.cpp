#include "server/worker/shadows.h"

#include "common/log.h"
#include "protocol/managed.h"
#include "protocol/runs.h"

#include <sys/mman.h>

#include <cstring>

namespace sluice::server {
namespace {
constexpr std::uint64_t kPageBytes = 4096;
}

Shadows::~Shadows() {
  for (const auto& [id, range] : ranges_) release(range, true);
}

CUresult Shadows::allocate(Range& range, CUdeviceptr* device) {
  void* memory = nullptr;
  const unsigned flags = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP;
  if (const CUresult bad = driver_.cuMemHostAlloc(&memory, range.bytes, flags)) return bad;
  range.memory = static_cast<std::byte*>(memory);
  std::memset(memory, 0, range.bytes);  // a driver may hand out what was used before
  const CUresult result = driver_.cuMemHostGetDevicePointer_v2(device, memory, 0);
  if (result != CUDA_SUCCESS) driver_.cuMemFreeHost(memory);
  return result;
}

CUresult Shadows::place(Range& range, std::uint64_t address, CUdeviceptr* device) {
  if (address % kPageBytes != 0) return CUDA_ERROR_INVALID_VALUE;
  auto* const wanted = reinterpret_cast<void*>(address);
  const std::uint64_t whole = (range.bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
  if (!is_shared) {
    void* memory =
        ::mmap(wanted, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return CUDA_ERROR_MAP_FAILED;
    if (memory != wanted) {  // something is there already
      ::munmap(memory, whole);
      return CUDA_ERROR_MAP_FAILED;
    }
  }
  range.memory = static_cast<std::byte*>(wanted);
  const unsigned flags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP;
  CUresult result = driver_.cuMemHostRegister_v2(wanted, whole, flags);
  if (result == CUDA_SUCCESS) {
    result = driver_.cuMemHostGetDevicePointer_v2(device, wanted, 0);
    if (result == CUDA_SUCCESS && *device != address) result = CUDA_ERROR_MAP_FAILED;
    if (result != CUDA_SUCCESS) driver_.cuMemHostUnregister(wanted);
  }
  range.is_registered = true;
  range.is_own_map = !is_shared;
  if (result != CUDA_SUCCESS && range.is_own_map) ::munmap(wanted, whole);
  return result;
}

CUresult Shadows::create(std::uint64_t id, std::uint64_t address, std::uint64_t bytes,
                         CUcontext context, CUdeviceptr* device) {
  if (driver_.cuMemHostRegister_v2 == nullptr || driver_.cuMemHostGetDevicePointer_v2 == nullptr)
    return CUDA_ERROR_NOT_SUPPORTED;
  const std::lock_guard lock(mutex_);
  if (id == 0 || bytes == 0 || ranges_.contains(id)) return CUDA_ERROR_INVALID_VALUE;
  if (bytes > kBytesMax - total_bytes_) {
    SLUICE_LOG_WARN("driver", "a session may share {} bytes of host memory with its kernels",
                    kBytesMax);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  Range range;
  range.context = context;
  range.bytes = bytes;
  // The client takes both sides for zero at first, and sends what is not.
  range.last = ZeroMemory(bytes);
  if (range.last.data() == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  if (const CUresult bad = address == 0 ? allocate(range, device) : place(range, address, device))
    return bad;
  total_bytes_ += bytes;
  ranges_.emplace(id, std::move(range));
  count_ = ranges_.size();
  return CUDA_SUCCESS;
}

CUcontext Shadows::context_of(std::uint64_t id) {
  const std::lock_guard lock(mutex_);
  const auto found = ranges_.find(id);
  return found != ranges_.end() ? found->second.context : nullptr;
}

void Shadows::release(const Range& range, bool is_context_gone) {
  if (!range.is_registered) {
    if (!is_context_gone) driver_.cuMemFreeHost(range.memory);
    return;
  }
  if (!is_context_gone) driver_.cuMemHostUnregister(range.memory);
  if (range.is_own_map)
    ::munmap(range.memory, (range.bytes + kPageBytes - 1) / kPageBytes * kPageBytes);
}

void Shadows::free(std::uint64_t id) {
  const std::lock_guard lock(mutex_);
  const auto found = ranges_.find(id);
  if (found == ranges_.end()) return;
  release(found->second, false);
  total_bytes_ -= found->second.bytes;
  ranges_.erase(found);
  count_ = ranges_.size();
}

void Shadows::forget(CUcontext context) {
  const std::lock_guard lock(mutex_);
  std::erase_if(ranges_, [&](const auto& item) {
    if (item.second.context != context) return false;
    release(item.second, true);
    total_bytes_ -= item.second.bytes;
    return true;
  });
  count_ = ranges_.size();
}

CUresult Shadows::write(std::uint64_t id, std::span<const std::byte> runs) {
  const std::lock_guard lock(mutex_);
  const auto found = ranges_.find(id);
  if (found == ranges_.end()) return CUDA_ERROR_INVALID_VALUE;
  Range& range = found->second;
  if (is_shared && range.is_registered) return CUDA_SUCCESS;
  const bool is_whole =
      wire::for_each_run(runs, range.bytes, [&](std::size_t at, std::span<const std::byte> data) {
        std::memcpy(range.memory + at, data.data(), data.size());
        std::memcpy(range.last.data() + at, data.data(), data.size());
      });
  return is_whole ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

void Shadows::send_changes() {
  if (count_.load(std::memory_order_acquire) == 0) return;
  const std::lock_guard lock(mutex_);
  for (auto& [id, range] : ranges_) {
    if (is_shared && range.is_registered) continue;
    wire::send_differences(range.memory, range.last.data(), range.bytes,
                           [&, range_id = id](std::span<const std::byte> runs) {
                             wire::shadow_data push{};
                             push.range = range_id;
                             push.runs_bytes = runs.size();
                             outbox_.push(push, wire::RecordHeader{}, CUDA_SUCCESS, {runs});
                           });
  }
}

}  // namespace sluice::server
