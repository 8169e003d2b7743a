#include "shim/handles.h"

#include <new>

namespace sluice::shim {
namespace {

// kind in bits 56.., generation in bits 28..55, slot in bits 4..27; bit 3 keeps the value away from
// the small integers that name special streams.
constexpr unsigned kKindShift = 56;
constexpr unsigned kGenerationShift = 28;
constexpr std::uint32_t kGenerationMask = (1u << 28) - 1;
constexpr unsigned kIndexShift = 4;
constexpr std::uint64_t kIndexMask = (1u << 24) - 1;
constexpr std::uint64_t kMark = 8;

std::uint64_t encode(Kind kind, std::uint32_t generation, std::uint32_t index) {
  return std::uint64_t{static_cast<std::uint8_t>(kind)} << kKindShift |
         std::uint64_t{generation & kGenerationMask} << kGenerationShift |
         std::uint64_t{index} << kIndexShift | kMark;
}

}  // namespace

HandleTable& handles() noexcept {
  // Leaked: calls may come while the application's static objects are being destroyed.
  static HandleTable* const table = new HandleTable;
  return *table;
}

HandleTable::~HandleTable() {
  for (auto& chunk : chunks_) delete[] chunk.load(std::memory_order_relaxed);
}

HandleTable::Slot* HandleTable::slot_of(Kind kind, std::uint64_t handle) const noexcept {
  if (handle >> kKindShift != static_cast<std::uint8_t>(kind) || (handle & 0xF) != kMark)
    return nullptr;
  const std::uint64_t index = handle >> kIndexShift & kIndexMask;
  if (index / kChunkSlots >= kChunksMax) return nullptr;
  Slot* chunk = chunks_[index / kChunkSlots].load(std::memory_order_acquire);
  if (chunk == nullptr) return nullptr;
  Slot& slot = chunk[index % kChunkSlots];
  const std::uint32_t generation = slot.generation.load(std::memory_order_acquire);
  if (generation % 2 == 0 ||
      (generation & kGenerationMask) != (handle >> kGenerationShift & kGenerationMask))
    return nullptr;
  return &slot;
}

bool HandleTable::find(Kind kind, std::uint64_t handle, Entry* entry) const noexcept {
  const Slot* slot = slot_of(kind, handle);
  if (slot == nullptr) return false;
  *entry = slot->entry;
  return true;
}

std::uint64_t HandleTable::add(Kind kind, const Entry& entry) noexcept {
  std::lock_guard lock(mutex_);
  std::uint32_t index = 0;
  if (!free_.empty()) {
    index = free_.back();
    free_.pop_back();
  } else {
    if (used_ == kChunkSlots * kChunksMax) return 0;
    index = used_;
    if (index % kChunkSlots == 0) {
      Slot* chunk = new (std::nothrow) Slot[kChunkSlots];
      if (chunk == nullptr) return 0;
      chunks_[index / kChunkSlots].store(chunk, std::memory_order_release);
    }
    ++used_;
  }
  Slot& slot = chunks_[index / kChunkSlots].load(std::memory_order_relaxed)[index % kChunkSlots];
  slot.kind = kind;
  slot.entry = entry;
  const std::uint32_t generation = slot.generation.load(std::memory_order_relaxed) + 1;
  slot.generation.store(generation, std::memory_order_release);
  return encode(kind, generation, index);
}

void HandleTable::free_slot(Slot& slot, std::uint32_t index) noexcept {
  slot.generation.fetch_add(1, std::memory_order_release);
  free_.push_back(index);
}

bool HandleTable::remove(Kind kind, std::uint64_t handle, Entry* entry) noexcept {
  std::lock_guard lock(mutex_);
  Slot* slot = slot_of(kind, handle);
  if (slot == nullptr) return false;
  *entry = slot->entry;
  free_slot(*slot, static_cast<std::uint32_t>(handle >> kIndexShift & kIndexMask));
  return true;
}

template <class Which>
void HandleTable::remove_if(const Which& which, void (*drop)(Kind, const Entry&)) noexcept {
  std::vector<std::pair<Kind, Entry>> dropped;
  {
    std::lock_guard lock(mutex_);
    for (std::uint32_t index = 0; index < used_; ++index) {
      Slot& slot =
          chunks_[index / kChunkSlots].load(std::memory_order_relaxed)[index % kChunkSlots];
      if (slot.generation.load(std::memory_order_relaxed) % 2 == 0 || !which(slot.entry)) continue;
      dropped.emplace_back(slot.kind, slot.entry);
      free_slot(slot, index);
    }
  }
  for (const auto& [kind, entry] : dropped) drop(kind, entry);
}

void HandleTable::remove_owned(std::uint64_t owner, void (*drop)(Kind, const Entry&)) noexcept {
  remove_if([owner](const Entry& entry) { return entry.owner == owner; }, drop);
}

void HandleTable::clear(void (*drop)(Kind, const Entry&)) noexcept {
  remove_if([](const Entry&) { return true; }, drop);
}

}  // namespace sluice::shim
