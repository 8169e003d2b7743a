// Memory that client and worker share, as the driver sees it: registered, so that the device reads
// and writes it without a copy of ours. The client may change it at any time; its content is the
// program's data and nothing else.
#pragma once

#include "driver/driver_table.h"

#include <cuda.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>

namespace sluice::server {

/// Thread-safe.
class SharedStaging {
 public:
  SharedStaging(const DriverTable& driver, std::span<std::byte> memory)
      : driver_(driver), memory_(memory) {}

  /// Null: not within the memory.
  [[nodiscard]] std::byte* piece(std::uint64_t offset, std::uint64_t bytes) const;
  /// Whether the device can use it. The first question registers it in the context, which is
  /// current.
  bool is_registered(CUcontext context);
  /// The context is gone, and its registrations with it.
  void forget(CUcontext context);
  [[nodiscard]] std::uint64_t pinned_bytes() const {
    return registrar_.load() != nullptr ? memory_.size() : 0;
  }

 private:
  const DriverTable& driver_;
  std::span<std::byte> memory_;
  std::mutex mutex_;
  std::atomic<CUcontext> registrar_{nullptr};  ///< read without the mutex
  bool is_refused_ = false;
};

}  // namespace sluice::server
