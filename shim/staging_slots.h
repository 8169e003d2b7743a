// The memory that this process shares with its worker (transport::Channel::staging), cut into slots
// for copies of both directions. We alone decide who uses which; the worker says when it has done
// with one. The last one given back is taken first: its memory is still in the cache.
#pragma once

#include "protocol/wire.h"
#include "shim/pipeline.h"

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

namespace sluice::shim {

/// Thread-safe.
class StagingSlots {
 public:
  static constexpr std::size_t kSlotBytes = wire::kPayloadBytesMax;

  explicit StagingSlots(std::span<std::byte> memory);

  [[nodiscard]] bool exist() const { return !slots_.empty(); }
  /// The offset of a free slot, if there is one. `seq` will hold the number of the record that uses
  /// it.
  std::optional<std::uint64_t> take(SharedSeq seq);
  /// Err(kProtocol): nobody uses that slot.
  Status give_back(std::uint64_t offset);
  /// The record with that number failed; gives back the slot that it still has, if any.
  void give_back_of(std::uint64_t seq);
  /// The memory of a slot in use; empty for anything else.
  [[nodiscard]] std::span<std::byte> memory(std::uint64_t offset) const;

 private:
  /// Null: free.
  using Slot = SharedSeq;
  [[nodiscard]] bool is_used(std::uint64_t offset) const;
  void free(std::size_t index);

  std::span<std::byte> memory_;
  mutable std::mutex mutex_;
  std::vector<Slot> slots_;
  std::vector<std::size_t> free_;
};

}  // namespace sluice::shim
