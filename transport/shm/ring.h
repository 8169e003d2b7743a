// The two sides of one direction. Each keeps its own position out of the peer's reach and believes
// a position of the peer's only if it can be true.
#pragma once

#include "common/format.h"
#include "common/result.h"
#include "transport/shm/bell.h"
#include "transport/shm/layout.h"

#include <algorithm>
#include <cstring>
#include <span>

namespace sluice::transport::shm {

inline tl::unexpected<Error> impossible_position(const char* whose, std::uint64_t theirs,
                                                 std::uint64_t ours) {
  return fail(
      ErrorCode::kProtocol,
      format("shared memory: the {} is at {}, which cannot be (here: {})", whose, theirs, ours));
}

/// Externally locked.
class Sender {
 public:
  Sender(Direction& direction, std::byte* ring) : direction_(direction), ring_(ring) {}

  /// Whether so much can be written now. The receiver's position is looked at only if it matters:
  /// its cache line travels with every message.
  Result<bool> has_room(std::size_t bytes) {
    if (written_ + bytes - seen_tail_ <= kRingBytes) return true;
    const std::uint64_t tail = direction_.tail.load(std::memory_order_acquire);
    if (tail - seen_tail_ > published_ - seen_tail_)
      return impossible_position("receiver", tail, published_);
    seen_tail_ = tail;
    return written_ + bytes - seen_tail_ <= kRingBytes;
  }
  /// Whether has_room() would see something new.
  [[nodiscard]] bool has_moved() const {
    return direction_.tail.load(std::memory_order_seq_cst) != seen_tail_;
  }
  [[nodiscard]] std::byte* at() const { return ring_ + written_ % kRingBytes; }
  void advance(std::size_t bytes) { written_ += bytes; }
  [[nodiscard]] std::size_t unpublished() const {
    return static_cast<std::size_t>(written_ - published_);
  }
  void publish() {
    if (written_ == published_) return;
    published_ = written_;
    direction_.head.store(published_, std::memory_order_seq_cst);
    ring(direction_.data);
  }
  [[nodiscard]] Bell& bell() const { return direction_.room; }

 private:
  Direction& direction_;
  std::byte* ring_;
  std::uint64_t written_ = 0, published_ = 0, seen_tail_ = 0;
};

/// Externally locked.
class Receiver {
 public:
  Receiver(Direction& direction, const std::byte* ring) : direction_(direction), ring_(ring) {}

  /// Bytes that can be read now.
  Result<std::size_t> available() {
    const std::uint64_t head = direction_.head.load(std::memory_order_acquire);
    if (head - read_ > kRingBytes || head - read_ < seen_head_ - read_)
      return impossible_position("sender", head, read_);
    seen_head_ = head;
    return static_cast<std::size_t>(head - read_);
  }
  [[nodiscard]] bool has_moved() const {
    return direction_.head.load(std::memory_order_seq_cst) != read_;
  }
  /// Takes bytes that available() promised.
  void take(std::span<std::byte> into) {
    std::memcpy(into.data(), ring_ + read_ % kRingBytes, into.size());
    read_ += into.size();
    direction_.tail.store(read_, std::memory_order_seq_cst);
    ring(direction_.room);
  }
  [[nodiscard]] Bell& bell() const { return direction_.data; }

 private:
  Direction& direction_;
  const std::byte* ring_;
  std::uint64_t read_ = 0, seen_head_ = 0;
};

}  // namespace sluice::transport::shm
