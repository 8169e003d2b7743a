#include "softgpu/memory/arena.h"

#include "common/format.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>

namespace sluice::softgpu {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::uint64_t kFirstAddress = 0x2000'0000'0000;
constexpr std::uint64_t kDeviceStride = std::uint64_t{1} << 40;
constexpr std::size_t kSlotStep = 256;
constexpr std::size_t kSlabBytes = 64 * 1024;

std::size_t round_up(std::size_t value, std::size_t to) {
  return (value + to - 1) / to * to;
}
/// Address space of a block: its pages and the guard page behind them.
std::size_t footprint(std::size_t bytes) {
  return round_up(bytes, kPage) + kPage;
}

}  // namespace

Result<std::unique_ptr<Arena>> Arena::create(int ordinal, std::unique_ptr<Account> account,
                                             std::size_t granularity_bytes) {
  // Room for fragmentation: freed ranges are reused first-fit.
  const std::size_t bytes = round_up(
      std::min<std::size_t>(account->capacity_bytes() * 4, std::size_t{512} << 30), kHugePage);
  void* hint =
      reinterpret_cast<void*>(kFirstAddress + static_cast<std::uint64_t>(ordinal) * kDeviceStride);
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void* base = ::mmap(hint, bytes, PROT_NONE, kFlags, -1, 0);  // elsewhere if that is taken
  if (base == MAP_FAILED)
    return fail(system_error(format("reserving {} GiB of address space", bytes >> 30), errno));
  ::madvise(base, bytes, MADV_DONTDUMP);
  return std::unique_ptr<Arena>(new Arena(reinterpret_cast<std::uint64_t>(base), bytes,
                                          std::move(account), granularity_bytes));
}

Arena::Arena(std::uint64_t base, std::size_t bytes, std::unique_ptr<Account> account,
             std::size_t granularity_bytes)
    : base_(base),
      bytes_(bytes),
      account_(std::move(account)),
      granularity_bytes_(granularity_bytes) {
  gaps_[base_] = bytes_;
}

bool Arena::charge(std::size_t bytes) {
  if (bytes * 2 >= granularity_bytes_) return account_->charge(round_up(bytes, granularity_bytes_));
  const std::size_t before = round_up(shared_bytes_, granularity_bytes_);
  const std::size_t after =
      round_up(shared_bytes_ + round_up(bytes, kArenaGranularityBytes), granularity_bytes_);
  if (after > before && !account_->charge(after - before)) return false;
  shared_bytes_ += round_up(bytes, kArenaGranularityBytes);
  return true;
}

void Arena::refund(std::size_t bytes) {
  if (bytes * 2 >= granularity_bytes_) return account_->refund(round_up(bytes, granularity_bytes_));
  const std::size_t before = round_up(shared_bytes_, granularity_bytes_);
  shared_bytes_ -= round_up(bytes, kArenaGranularityBytes);
  account_->refund(before - round_up(shared_bytes_, granularity_bytes_));
}

Arena::~Arena() {
  for (const auto& [address, block] : blocks_) refund(block.bytes);
  ::munmap(reinterpret_cast<void*>(base_), bytes_);
}

std::optional<std::uint64_t> Arena::allocate(std::size_t bytes, void* owner, bool is_managed) {
  const std::lock_guard lock(mutex_);
  if (bytes > bytes_ || !charge(bytes)) return std::nullopt;
  const auto at = bytes < kPage ? take_slot(bytes) : take_pages(bytes);
  if (at) {
    blocks_[*at] = Block{*at, bytes, owner, is_managed};
  } else {
    refund(bytes);
  }
  return at;
}

std::optional<std::uint64_t> Arena::take_slot(std::size_t bytes) {
  const std::size_t slot_bytes = round_up(bytes, kSlotStep);
  auto& slots = free_slots_[slot_bytes];
  if (slots.empty()) {
    const auto slab = take_pages(kSlabBytes);
    if (!slab) return std::nullopt;
    // Backwards, so that the lowest address is given out first.
    for (std::size_t i = kSlabBytes / slot_bytes; i > 0; --i)
      slots.push_back(*slab + (i - 1) * slot_bytes);
  }
  const std::uint64_t at = slots.back();
  slots.pop_back();
  return at;
}

std::optional<std::uint64_t> Arena::take_pages(std::size_t bytes) {
  const std::size_t need = footprint(bytes);
  const std::size_t align = bytes >= kHugePage ? kHugePage : kPage;
  for (auto gap = gaps_.begin(); gap != gaps_.end(); ++gap) {
    const std::uint64_t at = round_up(gap->first, align);
    const std::uint64_t gap_end = gap->first + gap->second;
    if (at + need > gap_end) continue;
    void* p = reinterpret_cast<void*>(at);
    if (::mprotect(p, need - kPage, PROT_READ | PROT_WRITE) != 0) return std::nullopt;
    if (align == kHugePage) ::madvise(p, need - kPage, MADV_HUGEPAGE);
    const std::uint64_t gap_begin = gap->first;
    gaps_.erase(gap);
    if (at > gap_begin) gaps_[gap_begin] = at - gap_begin;
    if (at + need < gap_end) gaps_[at + need] = gap_end - at - need;
    return at;
  }
  return std::nullopt;
}

void Arena::release(std::map<std::uint64_t, Block>::iterator block) {
  const std::uint64_t at = block->first;
  const std::size_t bytes = block->second.bytes;
  refund(bytes);
  blocks_.erase(block);
  if (bytes < kPage) {
    free_slots_[round_up(bytes, kSlotStep)].push_back(at);
  } else {
    give_pages(at, bytes);
  }
}

void Arena::give_pages(std::uint64_t at, std::size_t bytes) {
  std::size_t size = footprint(bytes);
  void* p = reinterpret_cast<void*>(at);
  ::madvise(p, size - kPage, MADV_DONTNEED);
  ::mprotect(p, size - kPage, PROT_NONE);
  // Joined with its free neighbours.
  std::uint64_t begin = at;
  auto next = gaps_.lower_bound(at);
  if (next != gaps_.end() && at + size == next->first) {
    size += next->second;
    next = gaps_.erase(next);
  }
  if (next != gaps_.begin()) {
    const auto previous = std::prev(next);
    if (previous->first + previous->second == at) {
      begin = previous->first;
      size += previous->second;
    }
  }
  gaps_[begin] = size;
}

bool Arena::free(std::uint64_t address) {
  const std::lock_guard lock(mutex_);
  const auto block = blocks_.find(address);
  if (block == blocks_.end()) return false;
  release(block);
  return true;
}

void Arena::free_all(void* owner) {
  const std::lock_guard lock(mutex_);
  for (auto block = blocks_.begin(); block != blocks_.end();) {
    const auto here = block++;
    if (here->second.owner == owner) release(here);
  }
}

std::optional<Arena::Block> Arena::find(std::uint64_t address) {
  const std::lock_guard lock(mutex_);
  auto after = blocks_.upper_bound(address);
  if (after == blocks_.begin()) return std::nullopt;
  const Block& block = std::prev(after)->second;
  if (address - block.address >= block.bytes) return std::nullopt;
  return block;
}

}  // namespace sluice::softgpu
