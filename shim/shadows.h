// Host memory that kernels use in place: mapped pinned memory, registered memory, managed memory
// (architecture D16). The worker has a counterpart, at the same address unless the memory is
// registered. Before work is given to the device, what the program has changed is sent; what the
// device has changed comes before any news of completed work. Both sides compare with what the
// other is known to have, so that only changed words travel and neither overwrites the other's.
//
// A pinned allocation takes part once a device pointer to it was asked for, it was made to be
// mapped, or its address occurs in a kernel's parameters: other pinned memory costs nothing.
#pragma once

#include "common/zero_memory.h"
#include "shim/addresses.h"
#include "shim/pipeline.h"

#include <cuda.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

namespace sluice::shim {

/// Memory for pinned and managed allocations, where the worker probably can have the same
/// addresses. Null if there is none.
void* map_shared_address(std::size_t bytes) noexcept;

/// Thread-safe.
class Shadows {
 public:
  Shadows(Pipeline& pipeline, Addresses& addresses) : pipeline_(pipeline), addresses_(addresses) {}

  /// Makes the memory that begins at `host` known to the device; once. `is_same_address`: or not at
  /// all.
  CUresult create(void* host, std::size_t bytes, bool is_same_address);
  /// The device's address of a place in memory that takes part; 0 if it does not.
  [[nodiscard]] CUdeviceptr device_address(const void* host) const;
  /// The place in the program's memory that the device knows by the address; null if there is none.
  [[nodiscard]] void* host_address(CUdeviceptr device) const;
  [[nodiscard]] bool is_any() const { return count_.load(std::memory_order_acquire) != 0; }
  /// The memory is being freed or unregistered.
  void remove(void* host);

  /// Pinned memory whose address a kernel gets takes part from now on.
  CUresult look_through(Bytes params);
  /// Sends what the program has changed. Call before giving work to the device.
  CUresult upload();
  Status on_data(Bytes body);

 private:
  struct Range {
    std::uint64_t id = 0;
    std::byte* host = nullptr;
    std::size_t bytes = 0;
    CUdeviceptr device = 0;
    std::uint32_t context = 0;
    ZeroMemory last;  ///< as the worker knows it
  };

  Pipeline& pipeline_;
  Addresses& addresses_;
  std::atomic<std::size_t> count_{0};
  std::mutex upload_mutex_;  ///< before mutex_
  mutable std::mutex mutex_;
  std::map<std::uintptr_t, Range> ranges_;           ///< by host address
  std::map<CUdeviceptr, std::uintptr_t> by_device_;  ///< -> host address
};

}  // namespace sluice::shim
