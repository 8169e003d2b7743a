// The bytes of a stream that may have to be sent again: a queue of blocks, numbered from the
// stream's beginning. Bytes can be composed in its free space, so that keeping them copies nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

namespace sluice::transport {

class SentBytes {
 public:
  static constexpr std::size_t kBlockBytes = 256 * 1024;

  /// Free space behind the last byte: contiguous, at least `bytes_min` (<= kBlockBytes).
  std::span<std::byte> room(std::size_t bytes_min);
  /// Bytes that lie at the beginning of room() stay where they are, others are copied.
  void append(std::span<const std::byte> bytes);
  void forget_before(std::uint64_t position);
  /// From `position` on (begin() <= position <= end()), as far as they are contiguous.
  [[nodiscard]] std::span<const std::byte> at(std::uint64_t position) const;

  [[nodiscard]] std::uint64_t begin() const { return begin_; }
  [[nodiscard]] std::uint64_t end() const { return end_; }
  [[nodiscard]] std::size_t bytes() const { return static_cast<std::size_t>(end_ - begin_); }
  /// Blocks in use and put by.
  [[nodiscard]] std::size_t block_count() const { return blocks_.size() + free_.size(); }

 private:
  static constexpr std::size_t kFreeBlocksMax = 4;
  struct Block {
    std::unique_ptr<std::byte[]> memory;
    std::uint64_t first = 0;  ///< number of its first byte
    std::size_t used = 0;
    [[nodiscard]] std::uint64_t end() const { return first + used; }
  };

  std::deque<Block> blocks_;
  std::vector<std::unique_ptr<std::byte[]>> free_;  ///< the last one is the warmest
  std::uint64_t begin_ = 0, end_ = 0;
};

}  // namespace sluice::transport
