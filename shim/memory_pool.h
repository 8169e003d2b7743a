// A memory pool: a name, and the figures of what was allocated under it. The memory itself is the
// context's (shim/arena).
#pragma once

#include "shim/slabs.h"

#include <cuda.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace sluice::shim {

struct MemoryPool {
  CUdevice device = 0;
  std::uint64_t max_bytes = 0;  ///< 0: as the slice has

  std::mutex mutex;  ///< guards what follows
  std::uint64_t release_threshold = 0;
  int reuse[3] = {1, 1, 1};  ///< CU_MEMPOOL_ATTR_REUSE_*
  std::uint64_t used_bytes = 0, used_bytes_high = 0, reserved_bytes_high = 0;

  /// The memory that stands behind what is in use. mutex is held.
  [[nodiscard]] std::uint64_t reserved_bytes() const {
    return (used_bytes + kGranuleBytes - 1) / kGranuleBytes * kGranuleBytes;
  }
  /// False if it may not have so much.
  bool take(std::size_t bytes) {
    const std::lock_guard lock(mutex);
    const std::uint64_t used = used_bytes + Slabs::in_units(bytes);
    if (used < bytes || (max_bytes != 0 && used > max_bytes)) return false;
    used_bytes = used;
    used_bytes_high = std::max(used_bytes_high, used);
    reserved_bytes_high = std::max(reserved_bytes_high, reserved_bytes());
    return true;
  }
  void give(std::size_t bytes) {
    const std::lock_guard lock(mutex);
    used_bytes -= Slabs::in_units(bytes);
  }
};

}  // namespace sluice::shim
