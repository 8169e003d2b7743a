// Pinned host memory between the channel and the device: pieces of blocks, reused for the life of a
// context. Small copies get small pieces, so that many of them can wait behind a long kernel.
#pragma once

#include "driver/driver_table.h"
#include "protocol/wire.h"

#include <cuda.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

namespace sluice::server {

/// Thread-safe.
class StagingPool {
 public:
  static constexpr std::size_t kBlockBytes = wire::kPayloadBytesMax;
  static constexpr std::array<std::size_t, 3> kPieceBytes = {1024, 16 * 1024, kBlockBytes};
  /// Blocks for both windows at their largest; a shim that does not keep to them gets no more.
  static constexpr std::size_t kBlocksMax = 2 * wire::kCopyWindowBytesMax / kBlockBytes;

  explicit StagingPool(const DriverTable& driver) : driver_(driver) {}

  /// At least `bytes` (<= kBlockBytes) of memory of the context, which is current; null if there is
  /// too much in use or the driver has none.
  std::byte* take(CUcontext context, std::size_t bytes);
  void give_back(CUcontext context, std::byte* piece, std::size_t bytes);
  /// The context is gone, and the memory with it.
  void forget(CUcontext context);
  [[nodiscard]] std::uint64_t pinned_bytes() const { return blocks_ * kBlockBytes; }

 private:
  struct PerContext {
    std::array<std::vector<std::byte*>, kPieceBytes.size()> idle;
    std::size_t blocks = 0;
  };
  static std::size_t size_class(std::size_t bytes);

  const DriverTable& driver_;
  std::mutex mutex_;
  std::map<CUcontext, PerContext> contexts_;
  std::atomic<std::size_t> blocks_{0};  ///< read without the mutex
};

}  // namespace sluice::server
