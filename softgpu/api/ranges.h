// What lies at an address: memory of an arena (cuMemAlloc, modules, pools, managed), a mapping of
// the virtual memory API, or pinned host memory, which is device memory too.
#pragma once

#include "softgpu/api/state.h"

namespace sluice::softgpu {

struct MemoryRange {
  std::uint64_t address = 0;
  std::size_t bytes = 0;
  void* owner = nullptr;     ///< the context; null for mappings and pools
  Device* device = nullptr;  ///< whose memory it is
  bool is_managed = false;
};

/// Device memory only.
std::optional<MemoryRange> memory_at(CUdeviceptr p);
/// Inside an arena or a reservation, whether anything is there or not.
bool is_device_address(CUdeviceptr p);
/// The whole range may be read (and written): inside one allocation, over any number of mappings,
/// or pinned.
bool is_device_range(CUdeviceptr p, std::size_t bytes, bool for_writing);
/// Is all of it inside one pinned or registered range?
bool is_pinned(const void* host, std::size_t bytes);

/// Runs a copy or fill of a stream; memory that went away meanwhile is ILLEGAL_ADDRESS and no
/// crash.
CUresult run_memory_operation(const std::function<void()>& work);

}  // namespace sluice::softgpu
