#include "shim/slabs.h"

#include <iterator>

namespace sluice::shim {

void Slabs::insert(CUdeviceptr address, std::size_t bytes) {
  free_.emplace(address, bytes);
  by_size_.emplace(bytes, address);
}

void Slabs::erase(std::map<CUdeviceptr, std::size_t>::iterator stretch) {
  by_size_.erase({stretch->second, stretch->first});
  free_.erase(stretch);
}

void Slabs::add(CUdeviceptr slab) {
  slabs_.insert(slab);
  insert(slab, kGranuleBytes);
}

void Slabs::clear() {
  slabs_.clear();
  free_.clear();
  by_size_.clear();
}

std::optional<CUdeviceptr> Slabs::take(std::size_t bytes) {
  const std::size_t wanted = in_units(bytes);
  const auto best = by_size_.lower_bound({wanted, 0});
  if (best == by_size_.end()) return std::nullopt;
  const auto [size, address] = *best;
  erase(free_.find(address));
  if (size > wanted) insert(address + wanted, size - wanted);
  return address;
}

std::optional<CUdeviceptr> Slabs::give(CUdeviceptr address, std::size_t bytes) {
  const CUdeviceptr slab = *std::prev(slabs_.upper_bound(address));
  CUdeviceptr begin = address;
  CUdeviceptr end = address + in_units(bytes);
  const auto next = free_.find(end);
  if (next != free_.end() && end < slab + kGranuleBytes) {
    end += next->second;
    erase(next);
  }
  auto before = free_.lower_bound(begin);
  if (begin > slab && before != free_.begin()) {
    before = std::prev(before);
    if (before->first + before->second == begin) {
      begin = before->first;
      erase(before);
    }
  }
  if (begin == slab && end == slab + kGranuleBytes) {
    slabs_.erase(slab);
    return slab;
  }
  insert(begin, end - begin);
  return std::nullopt;
}

}  // namespace sluice::shim
