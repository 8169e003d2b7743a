// Pinned host memory between the channel and the device, in slots of one payload, reused for the
// life of the session.
#pragma once

#include "driver/driver_table.h"
#include "protocol/wire.h"

#include <cuda.h>

#include <mutex>
#include <vector>

namespace sluice::server {

/// Thread-safe. How much can be in use is bounded by the shim's copy windows.
class StagingPool {
 public:
  static constexpr std::size_t kSlotBytes = wire::kPayloadBytesMax;
  /// Slots for both windows, and as many again for a shim that does not keep to them before it is
  /// refused.
  static constexpr std::size_t kSlotsMax = 4 * wire::kCopyWindowBytes / kSlotBytes;

  explicit StagingPool(const DriverTable& driver) : driver_(driver) {}

  /// A slot, or null if there are too many or the driver has no memory. The current context must be
  /// set.
  std::byte* take() {
    {
      const std::lock_guard lock(mutex_);
      if (!free_.empty()) {
        std::byte* slot = free_.back();
        free_.pop_back();
        return slot;
      }
      if (count_ >= kSlotsMax) return nullptr;
      ++count_;
    }
    void* memory = nullptr;
    if (driver_.cuMemHostAlloc == nullptr ||
        driver_.cuMemHostAlloc(&memory, kSlotBytes, CU_MEMHOSTALLOC_PORTABLE) != CUDA_SUCCESS) {
      const std::lock_guard lock(mutex_);
      --count_;
      return nullptr;
    }
    return static_cast<std::byte*>(memory);
  }

  void give_back(std::byte* slot) {
    const std::lock_guard lock(mutex_);
    free_.push_back(slot);
  }

 private:
  const DriverTable& driver_;
  std::mutex mutex_;
  std::vector<std::byte*> free_;
  std::size_t count_ = 0;
};

}  // namespace sluice::server
