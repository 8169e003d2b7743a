#include "softgpu/memory/address_space.h"

#include <sys/mman.h>

#include <algorithm>

namespace sluice::softgpu {
namespace {

constexpr int kReserve = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

void* pointer(std::uint64_t address) {
  return reinterpret_cast<void*>(address);
}

int protection(AddressSpace::Access access) {
  switch (access) {
    case AddressSpace::Access::kNone:
      return PROT_NONE;
    case AddressSpace::Access::kRead:
      return PROT_READ;
    case AddressSpace::Access::kReadWrite:
      return PROT_READ | PROT_WRITE;
  }
  return PROT_NONE;
}

std::optional<std::uint64_t> reserve_anywhere(std::size_t bytes, std::size_t alignment) {
  std::size_t room = 0;
  if (__builtin_add_overflow(bytes, alignment, &room)) return std::nullopt;
  void* found = ::mmap(nullptr, room, PROT_NONE, kReserve, -1, 0);
  if (found == MAP_FAILED) return std::nullopt;
  const auto begin = reinterpret_cast<std::uint64_t>(found);
  const std::uint64_t at = (begin + alignment - 1) / alignment * alignment;
  if (at > begin) ::munmap(found, at - begin);
  if (begin + room > at + bytes) ::munmap(pointer(at + bytes), begin + room - at - bytes);
  return at;
}

}  // namespace

std::optional<std::uint64_t> AddressSpace::reserve(std::size_t bytes, std::size_t alignment,
                                                   std::uint64_t hint) {
  std::optional<std::uint64_t> at;
  if (hint != 0 && hint % alignment == 0) {
    void* found = ::mmap(pointer(hint), bytes, PROT_NONE, kReserve, -1, 0);
    if (found == pointer(hint))
      at = hint;
    else if (found != MAP_FAILED)
      ::munmap(found, bytes);
  }
  if (!at) at = reserve_anywhere(bytes, alignment);
  if (!at) return std::nullopt;
  ::madvise(pointer(*at), bytes, MADV_DONTDUMP);
  const std::lock_guard lock(mutex_);
  reservations_[*at] = bytes;
  return at;
}

bool AddressSpace::free(std::uint64_t address, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto found = reservations_.find(address);
  if (found == reservations_.end() || found->second != bytes) return false;
  const auto mapped = mappings_.lower_bound(address);
  if (mapped != mappings_.end() && mapped->first - address < bytes) return false;
  ::munmap(pointer(address), bytes);
  reservations_.erase(found);
  return true;
}

bool AddressSpace::map(std::uint64_t address, std::size_t bytes,
                       const std::shared_ptr<PhysicalBlock>& block) {
  if (bytes > block->properties().bytes) return false;
  const std::lock_guard lock(mutex_);
  auto around = reservations_.upper_bound(address);
  if (around == reservations_.begin()) return false;
  --around;
  const std::uint64_t offset = address - around->first;
  if (offset > around->second || bytes > around->second - offset) return false;
  const auto next = mappings_.lower_bound(address);
  if (next != mappings_.end() && next->first - address < bytes) return false;
  if (at(address) != nullptr || !block->map_at(address, bytes)) return false;
  mappings_[address] = Mapping{address, bytes, block, Access::kNone};
  return true;
}

bool AddressSpace::are_whole(std::uint64_t address, std::size_t bytes) const {
  std::size_t covered = 0;
  while (covered < bytes) {
    const auto found = mappings_.find(address + covered);
    if (found == mappings_.end()) return false;
    covered += found->second.bytes;
  }
  return bytes > 0 && covered == bytes;
}

bool AddressSpace::are_whole_mappings(std::uint64_t address, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  return are_whole(address, bytes);
}

bool AddressSpace::unmap(std::uint64_t address, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  if (!are_whole(address, bytes)) return false;
  if (::mmap(pointer(address), bytes, PROT_NONE, kReserve | MAP_FIXED, -1, 0) == MAP_FAILED)
    return false;
  mappings_.erase(mappings_.find(address), mappings_.lower_bound(address + bytes));
  return true;
}

bool AddressSpace::set_access(std::uint64_t address, std::size_t bytes, Access access) {
  const std::lock_guard lock(mutex_);
  if (!are_whole(address, bytes)) return false;
  if (::mprotect(pointer(address), bytes, protection(access)) != 0) return false;
  for (auto m = mappings_.find(address); m != mappings_.end() && m->first < address + bytes; ++m)
    m->second.access = access;
  return true;
}

const AddressSpace::Mapping* AddressSpace::at(std::uint64_t address) const {
  const auto after = mappings_.upper_bound(address);
  if (after == mappings_.begin()) return nullptr;
  const Mapping& m = std::prev(after)->second;
  return address - m.address < m.bytes ? &m : nullptr;
}

std::optional<AddressSpace::Mapping> AddressSpace::find(std::uint64_t address) {
  const std::lock_guard lock(mutex_);
  const Mapping* found = at(address);
  return found != nullptr ? std::optional(*found) : std::nullopt;
}

bool AddressSpace::is_reserved(std::uint64_t address) {
  const std::lock_guard lock(mutex_);
  const auto after = reservations_.upper_bound(address);
  return after != reservations_.begin() &&
         address - std::prev(after)->first < std::prev(after)->second;
}

bool AddressSpace::is_accessible(std::uint64_t address, std::size_t bytes, bool for_writing) {
  const std::lock_guard lock(mutex_);
  while (bytes > 0) {
    const Mapping* m = at(address);
    if (m == nullptr || m->access == Access::kNone ||
        (for_writing && m->access != Access::kReadWrite))
      return false;
    const std::size_t here = std::min(bytes, m->address + m->bytes - address);
    address += here;
    bytes -= here;
  }
  return true;
}

}  // namespace sluice::softgpu
