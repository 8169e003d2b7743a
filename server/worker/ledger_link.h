// Where a worker asks for memory before it allocates. The broker's ledger decides; without an
// answer there is no allocation.
#pragma once

#include "server/memory_kind.h"

#include <cstdint>
#include <map>
#include <mutex>

namespace sluice::server {

/// Thread-safe: the decode thread and the completer's ask.
class LedgerLink {
 public:
  struct Usage {
    bool is_granted = false;
    std::uint64_t used_bytes = 0;   ///< by the tenant on the device
    std::uint64_t limit_bytes = 0;  ///< 0 = the device's own size
  };
  virtual ~LedgerLink() = default;
  /// Not granted if the limit would be passed or the broker does not answer.
  virtual Usage charge(std::uint32_t device, MemoryKind kind, std::uint64_t bytes) = 0;
  virtual void refund(std::uint32_t device, MemoryKind kind, std::uint64_t bytes) = 0;
  /// So much there is now of a kind that is not asked for.
  virtual void measured(std::uint32_t, MemoryKind, std::uint64_t) {}
  virtual Usage query(std::uint32_t device) = 0;
  /// The client has given back what it kept, as it was asked to.
  virtual void recalled() {}
  /// So much of what was charged the client keeps and does not use.
  virtual void note_spare(std::uint32_t, std::uint64_t) {}
};

/// A ledger of one process, for engines that run without a broker.
class LocalLedger final : public LedgerLink {
 public:
  /// 0 = no limit but the device's own size.
  explicit LocalLedger(std::uint64_t limit_bytes = 0) : limit_bytes_(limit_bytes) {}
  Usage charge(std::uint32_t device, MemoryKind kind, std::uint64_t bytes) override {
    const std::lock_guard lock(mutex_);
    const std::uint64_t used = used_bytes(device);
    const bool is_free = class_of(kind) != MemoryClass::kSlice || limit_bytes_ == 0;
    const bool is_granted = is_free || (used <= limit_bytes_ && bytes <= limit_bytes_ - used);
    if (is_granted) kinds_[device][index_of(kind)] += bytes;
    return {is_granted, used_bytes(device), limit_bytes_};
  }
  void refund(std::uint32_t device, MemoryKind kind, std::uint64_t bytes) override {
    const std::lock_guard lock(mutex_);
    kinds_[device][index_of(kind)] -= bytes;
  }
  void measured(std::uint32_t device, MemoryKind kind, std::uint64_t bytes) override {
    const std::lock_guard lock(mutex_);
    kinds_[device][index_of(kind)] = bytes;
  }
  Usage query(std::uint32_t device) override {
    const std::lock_guard lock(mutex_);
    return {true, used_bytes(device), limit_bytes_};
  }
  [[nodiscard]] MemoryByKind kinds_of(std::uint32_t device) {
    const std::lock_guard lock(mutex_);
    return kinds_[device];
  }

 private:
  [[nodiscard]] std::uint64_t used_bytes(std::uint32_t device) {
    return sum_of(kinds_[device], MemoryClass::kSlice);
  }

  const std::uint64_t limit_bytes_;
  std::mutex mutex_;
  std::map<std::uint32_t, MemoryByKind> kinds_;
};

}  // namespace sluice::server
