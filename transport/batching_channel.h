// The sending side of channels that write into no memory shared with the peer: a small buffer
// gathers a batch, which stays hot in the cache, and goes out as a whole.
#pragma once

#include "transport/transport.h"

#include <algorithm>
#include <cstring>

namespace sluice::transport {

/// As Channel. A first failure to send stays the channel's.
class BatchingChannel : public Channel {
 public:
  std::span<std::byte> reserve(std::size_t bytes) final {
    if (bytes > batch_.size() || !send_status_) return {};
    if (used_ + bytes > batch_.size() && !flush()) return {};
    return {batch_.data() + used_, bytes};
  }

  void commit(std::size_t bytes, FlushHint hint) final {
    used_ += bytes;
    const bool is_due =
        hint == FlushHint::kNow || (hint == FlushHint::kSoon && used_ >= kSoonBytes);
    if (is_due) static_cast<void>(flush());  // a failure is kept for the next reserve() and flush()
  }

  Status flush() final {
    if (send_status_) send_status_ = send_batch(batch_.first(used_));
    if (used_ > 0) batch_ = next_batch(batch_);
    used_ = 0;
    return send_status_;
  }

  [[nodiscard]] std::size_t unflushed_bytes() const final { return used_; }

  Status write_through(std::span<const std::byte> bytes) final {
    while (!bytes.empty()) {
      const std::size_t piece = std::min(bytes.size(), batch_.size() - used_);
      std::memcpy(batch_.data() + used_, bytes.data(), piece);
      used_ += piece;
      bytes = bytes.subspan(piece);
      if (used_ == batch_.size()) SLUICE_CHECK(flush());
    }
    return flush();
  }

 protected:
  /// Where the first batch gathers; not before that memory is there.
  void gather_in(std::span<std::byte> memory) { batch_ = memory; }
  /// Blocks while the peer is slow; empty too, to say whether the channel still lives.
  [[nodiscard]] virtual Status send_batch(std::span<const std::byte> batch) = 0;
  /// Where the batch after the one that was just sent gathers.
  virtual std::span<std::byte> next_batch(std::span<std::byte> sent) { return sent; }

 private:
  std::span<std::byte> batch_;
  std::size_t used_ = 0;
  Status send_status_;
};

}  // namespace sluice::transport
