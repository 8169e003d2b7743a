#include "shim/arena.h"

#include <algorithm>
#include <iterator>

namespace sluice::shim {

std::size_t Arena::block_bytes(std::size_t bytes) {
  if (bytes <= kSmallBytesMax) return kGranuleBytes;
  return (bytes + kGranuleBytes - 1) / kGranuleBytes * kGranuleBytes;
}

CUdeviceptr Arena::slab_of(CUdeviceptr address) const {
  return std::prev(parts_in_use_.upper_bound(address))->first;
}

void Arena::use(CUdeviceptr address, const Allocation& allocation) {
  allocations_[address] = allocation;
  if (allocation.form != Form::kPart) {
    used_bytes_ += allocation.bytes;
  } else if (parts_in_use_[slab_of(address)]++ == 0) {
    used_bytes_ += kGranuleBytes;
  }
}

std::optional<CUdeviceptr> Arena::take_block(std::size_t bytes) {
  const auto found = free_blocks_.find(bytes);
  if (found == free_blocks_.end()) return std::nullopt;
  const CUdeviceptr block = found->second;
  free_blocks_.erase(found);
  return block;
}

Arena::Allocation Arena::shape_of(std::size_t bytes) {
  if (bytes <= kSmallBytesMax) return {Slabs::in_units(bytes), Form::kPart};
  return {block_bytes(bytes), Form::kBlock};
}

/// The latest that was freed: it is likely to be in the device's caches.
std::optional<CUdeviceptr> Arena::take_in_order(const Allocation& wanted, std::uint64_t stream) {
  auto after = in_order_.upper_bound({stream, wanted.form, wanted.bytes});
  if (after == in_order_.begin()) return std::nullopt;
  const auto found = std::prev(after);
  if (found->first != OrderKey{stream, wanted.form, wanted.bytes}) return std::nullopt;
  const CUdeviceptr address = found->second->address;
  waiting_bytes_ -= wanted.bytes;
  waiting_.erase(found->second);
  in_order_.erase(found);
  use(address, wanted);
  return address;
}

std::optional<CUdeviceptr> Arena::take(std::size_t bytes, Order order) {
  const Allocation wanted = shape_of(bytes);
  if (order)
    if (const auto address = take_in_order(wanted, *order)) return address;
  auto address = wanted.form == Form::kPart ? slabs_.take(bytes) : take_block(wanted.bytes);
  if (!address && wanted.form == Form::kPart) {
    const auto slab = take_block(kGranuleBytes);
    if (!slab) return std::nullopt;
    parts_in_use_[*slab] = 0;
    slabs_.add(*slab);
    address = slabs_.take(bytes);
  }
  if (address) use(*address, wanted);
  return address;
}

CUdeviceptr Arena::take_from(CUdeviceptr block, std::size_t bytes) {
  held_bytes_ += block_bytes(bytes);
  free_blocks_.emplace(block_bytes(bytes), block);
  return take(bytes).value_or(0);  // there is one: it has just come
}

void Arena::take_whole(CUdeviceptr block, std::size_t bytes) {
  held_bytes_ += bytes;
  use(block, {bytes, Form::kWhole});
}

bool Arena::free(CUdeviceptr address, std::uint64_t busy_until, Order order) {
  const auto found = allocations_.find(address);
  if (found == allocations_.end()) return false;
  const Allocation was = found->second;
  allocations_.erase(found);
  if (was.form == Form::kPart) {
    if (--parts_in_use_.find(slab_of(address))->second == 0) used_bytes_ -= kGranuleBytes;
  } else {
    used_bytes_ -= was.bytes;
    if (was.form == Form::kWhole || waiting_bytes_ + was.bytes > kept_bytes_max_) {
      held_bytes_ -= was.bytes;
      return false;
    }
  }
  if (busy_until == 0) {
    release(address, was);
    return true;
  }
  waiting_.push_back({busy_until, address, was, order});
  waiting_bytes_ += was.bytes;
  if (order) in_order_.emplace(OrderKey{*order, was.form, was.bytes}, std::prev(waiting_.end()));
  return true;
}

void Arena::forget_order(Waitings::iterator waiting) {
  const Order& order = waiting->order;
  if (!order) return;
  auto [at, end] = in_order_.equal_range({*order, waiting->was.form, waiting->was.bytes});
  while (at != end && at->second != waiting) ++at;
  if (at != end) in_order_.erase(at);
}

void Arena::release(CUdeviceptr address, const Allocation& was) {
  if (was.form == Form::kBlock) {
    free_blocks_.emplace(was.bytes, address);
  } else if (const auto slab = slabs_.give(address, was.bytes)) {
    parts_in_use_.erase(*slab);
    free_blocks_.emplace(kGranuleBytes, *slab);
  }
}

void Arena::complete(std::uint64_t seq) {
  while (!waiting_.empty() && waiting_.front().busy_until <= seq) {
    const Waiting freed = waiting_.front();
    forget_order(waiting_.begin());
    waiting_.pop_front();
    waiting_bytes_ -= freed.was.bytes;
    release(freed.address, freed.was);
  }
}

std::uint64_t Arena::busy_until() const {
  return waiting_.empty() ? 0 : waiting_.back().busy_until;
}

bool Arena::is_waited_for(std::size_t bytes) const {
  const Allocation wanted = shape_of(bytes);
  return wanted.form == Form::kBlock &&
         std::any_of(waiting_.begin(), waiting_.end(), [&](const Waiting& freed) {
           return freed.was.form == Form::kBlock && freed.was.bytes == wanted.bytes;
         });
}

std::vector<CUdeviceptr> Arena::take_out_free() {
  std::vector<CUdeviceptr> out;
  for (const auto& [bytes, block] : free_blocks_) {
    out.push_back(block);
    held_bytes_ -= bytes;
  }
  free_blocks_.clear();
  return out;
}

void Arena::clear() {
  slabs_.clear();
  parts_in_use_.clear();
  allocations_.clear();
  free_blocks_.clear();
  waiting_.clear();
  in_order_.clear();
  held_bytes_ = used_bytes_ = waiting_bytes_ = 0;
}

}  // namespace sluice::shim
