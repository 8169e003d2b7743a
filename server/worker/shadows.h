// The worker's side of shadow ranges (architecture D16): memory that the client's program and its
// kernels both use in place. The client's changes are written here before the work that may look at
// them; what the device changed is sent before anything announces that work has completed.
#pragma once

#include "common/zero_memory.h"
#include "driver/driver_table.h"
#include "server/worker/outbox.h"

#include <cuda.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>

namespace sluice::server {

/// Thread-safe.
class Shadows {
 public:
  static constexpr std::uint64_t kBytesMax = std::uint64_t{16} << 30;

  Shadows(const DriverTable& driver, Outbox& outbox) : driver_(driver), outbox_(outbox) {}
  ~Shadows();

  /// Client and worker are one process (tests): a range at an address is the client's own memory,
  /// and there is nothing to be kept alike.
  bool is_shared = false;

  /// `address` 0: anywhere; else the kernels shall find it exactly there. `context` is current.
  CUresult create(std::uint64_t id, std::uint64_t address, std::uint64_t bytes, CUcontext context,
                  CUdeviceptr* device);
  /// The context in which it was made, null if there is no such range.
  CUcontext context_of(std::uint64_t id);
  void free(std::uint64_t id);
  /// The context is gone, and its ranges with it.
  void forget(CUcontext context);
  CUresult write(std::uint64_t id, std::span<const std::byte> runs);
  /// Sends what the device has changed since the last look.
  void send_changes();
  [[nodiscard]] std::uint64_t pinned_bytes() const { return total_bytes_; }

 private:
  struct Range {
    CUcontext context = nullptr;
    std::byte* memory = nullptr;
    std::uint64_t bytes = 0;
    ZeroMemory last;             ///< as the client knows it
    bool is_registered = false;  ///< memory of our own map, registered with the driver
    bool is_own_map = false;
  };
  CUresult allocate(Range& range, CUdeviceptr* device);
  CUresult place(Range& range, std::uint64_t address, CUdeviceptr* device);
  void release(const Range& range, bool is_context_gone);

  const DriverTable& driver_;
  Outbox& outbox_;
  std::atomic<std::size_t> count_{0};
  std::mutex mutex_;
  std::map<std::uint64_t, Range> ranges_;
  std::atomic<std::uint64_t> total_bytes_{0};  ///< read without the mutex
};

}  // namespace sluice::server
