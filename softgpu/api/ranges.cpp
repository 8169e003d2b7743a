#include "softgpu/api/ranges.h"

#include "common/log.h"
#include "softgpu/exec/fault.h"

namespace sluice::softgpu {
namespace {

Device* device_by_ordinal(int ordinal) {
  for (const auto& device : state().devices)
    if (device->ordinal == ordinal) return device.get();
  return nullptr;
}

}  // namespace

std::optional<MemoryRange> memory_at(CUdeviceptr p) {
  for (const auto& device : state().devices) {
    if (!device->arena->contains(p)) continue;
    const auto block = device->arena->find(p);
    if (!block) return std::nullopt;
    return MemoryRange{block->address, block->bytes, block->owner, device.get(), block->is_managed};
  }
  const auto mapping = state().addresses.find(p);
  if (!mapping) return std::nullopt;
  return MemoryRange{mapping->address, mapping->bytes, nullptr,
                     device_by_ordinal(mapping->block->properties().ordinal), false};
}

bool is_device_address(CUdeviceptr p) {
  for (const auto& device : state().devices)
    if (device->arena->contains(p)) return true;
  return state().addresses.is_reserved(p);
}

bool is_device_range(CUdeviceptr p, std::size_t bytes, bool for_writing) {
  for (const auto& device : state().devices) {
    if (!device->arena->contains(p)) continue;
    const auto block = device->arena->find(p);
    return block && bytes <= block->bytes - (p - block->address);
  }
  return state().addresses.is_accessible(p, bytes, for_writing) ||
         is_pinned(reinterpret_cast<const void*>(p), bytes);
}

bool is_pinned(const void* host, std::size_t bytes) {
  State& s = state();
  const std::lock_guard lock(s.host_mutex);
  const auto address = reinterpret_cast<std::uint64_t>(host);
  auto after = s.host_ranges.upper_bound(address);
  if (after == s.host_ranges.begin()) return false;
  const auto& [begin, range] = *std::prev(after);
  return address - begin < range.bytes && bytes <= range.bytes - (address - begin);
}

CUresult run_memory_operation(const std::function<void()>& work) {
  auto* function = const_cast<std::function<void()>*>(&work);
  const KernelFault fault =
      run_guarded([](void* f) { (*static_cast<std::function<void()>*>(f))(); }, function);
  if (fault.outcome == LaunchOutcome::kOk) return CUDA_SUCCESS;
  SLUICE_LOG_WARN("softgpu", "copy or fill: {}", fault.detail);
  return CUDA_ERROR_ILLEGAL_ADDRESS;
}

}  // namespace sluice::softgpu
