#include "transport/resume/sent_bytes.h"

#include <algorithm>
#include <cstring>

namespace sluice::transport {

std::span<std::byte> SentBytes::room(std::size_t bytes_min) {
  if (blocks_.empty() || kBlockBytes - blocks_.back().used < bytes_min) {
    Block next;
    next.first = end_;
    if (free_.empty()) {
      next.memory = std::make_unique_for_overwrite<std::byte[]>(kBlockBytes);
    } else {
      next.memory = std::move(free_.back());
      free_.pop_back();
    }
    blocks_.push_back(std::move(next));
  }
  const Block& last = blocks_.back();
  return {last.memory.get() + last.used, kBlockBytes - last.used};
}

void SentBytes::append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const std::span<std::byte> space = room(1);
    const std::size_t piece = std::min(space.size(), bytes.size());
    if (bytes.data() != space.data()) std::memmove(space.data(), bytes.data(), piece);
    blocks_.back().used += piece;
    end_ += piece;
    bytes = bytes.subspan(piece);
  }
}

void SentBytes::forget_before(std::uint64_t position) {
  begin_ = std::max(begin_, std::min(position, end_));
  // The last block stays: somebody may be composing bytes in its free space.
  while (blocks_.size() > 1 && blocks_.front().end() <= begin_) {
    if (free_.size() < kFreeBlocksMax) free_.push_back(std::move(blocks_.front().memory));
    blocks_.pop_front();
  }
}

std::span<const std::byte> SentBytes::at(std::uint64_t position) const {
  const auto block = std::find_if(blocks_.begin(), blocks_.end(),
                                  [&](const Block& b) { return position < b.end(); });
  if (block == blocks_.end() || position < begin_) return {};
  const auto skipped = static_cast<std::size_t>(position - block->first);
  return {block->memory.get() + skipped, block->used - skipped};
}

}  // namespace sluice::transport
