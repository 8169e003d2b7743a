// What has arrived and was not read yet: a ring that the peer cannot overfill. Its memory is our
// own; the peer cannot change it afterwards.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace sluice::transport::ucx {

/// Positions count bytes since the beginning. Bytes that readable() gave stay as they are until
/// consume(), so they may be read without the wire's lock.
class Inbox {
 public:
  explicit Inbox(std::size_t bytes_max) : memory_(bytes_max) {}

  [[nodiscard]] std::uint64_t received() const { return received_; }
  [[nodiscard]] std::uint64_t consumed() const { return consumed_; }
  [[nodiscard]] bool is_empty() const { return received_ == consumed_; }

  /// False if there is no room: the sender had no credit for it.
  bool append(std::span<const std::byte> bytes) {
    if (bytes.size() > memory_.size() - (received_ - consumed_)) return false;
    while (!bytes.empty()) {
      const std::size_t at = received_ % memory_.size();
      const std::size_t piece = std::min(bytes.size(), memory_.size() - at);
      std::memcpy(memory_.data() + at, bytes.data(), piece);
      received_ += piece;
      bytes = bytes.subspan(piece);
    }
    return true;
  }
  /// The oldest bytes, as far as they are contiguous, at most `bytes_max`.
  [[nodiscard]] std::span<const std::byte> readable(std::size_t bytes_max) const {
    const std::size_t at = consumed_ % memory_.size();
    const std::size_t bytes = std::min<std::uint64_t>(received_ - consumed_, memory_.size() - at);
    return {memory_.data() + at, std::min(bytes, bytes_max)};
  }
  void consume(std::size_t bytes) { consumed_ += bytes; }

 private:
  std::vector<std::byte> memory_;
  std::uint64_t received_ = 0, consumed_ = 0;
};

}  // namespace sluice::transport::ucx
