#include "shim/staging_slots.h"

namespace sluice::shim {

StagingSlots::StagingSlots(std::span<std::byte> memory)
    : memory_(memory), slots_(memory.size() / kSlotBytes) {
  for (std::size_t i = slots_.size(); i > 0; --i) free_.push_back(i - 1);
}

std::optional<std::uint64_t> StagingSlots::take(SharedSeq seq) {
  const std::lock_guard lock(mutex_);
  if (free_.empty()) return std::nullopt;
  const std::size_t index = free_.back();
  free_.pop_back();
  slots_[index] = std::move(seq);
  return index * kSlotBytes;
}

bool StagingSlots::is_used(std::uint64_t offset) const {
  return offset % kSlotBytes == 0 && offset / kSlotBytes < slots_.size() &&
         slots_[offset / kSlotBytes] != nullptr;
}

void StagingSlots::free(std::size_t index) {
  slots_[index] = nullptr;
  free_.push_back(index);
}

Status StagingSlots::give_back(std::uint64_t offset) {
  const std::lock_guard lock(mutex_);
  if (!is_used(offset))
    return fail(ErrorCode::kProtocol, "the worker gives back staging memory that is not in use");
  free(offset / kSlotBytes);
  return {};
}

void StagingSlots::give_back_of(std::uint64_t seq) {
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < slots_.size(); ++i)
    if (slots_[i] != nullptr && slots_[i]->load() == seq) return free(i);
}

std::span<std::byte> StagingSlots::memory(std::uint64_t offset) const {
  const std::lock_guard lock(mutex_);
  if (!is_used(offset)) return {};
  return memory_.subspan(offset, kSlotBytes);
}

}  // namespace sluice::shim
