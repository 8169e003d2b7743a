#include "shim/addresses.h"

#include <algorithm>

namespace sluice::shim {
namespace {

template <class Map>
auto containing(const Map& map, typename Map::key_type address) {
  auto at = map.upper_bound(address);
  if (at == map.begin()) return map.end();
  --at;
  return address - at->first < at->second.bytes ? at : map.end();
}

}  // namespace

void Addresses::add_device(const DeviceRange& range) {
  std::lock_guard lock(mutex_);
  DeviceRange& known = device_[range.base];
  known = range;
  known.buffer_id = ++last_buffer_id_;
}

std::optional<DeviceRange> Addresses::device(CUdeviceptr address) const {
  std::lock_guard lock(mutex_);
  const auto at = containing(device_, address);
  if (at == device_.end()) return std::nullopt;
  return at->second;
}

std::optional<DeviceRange> Addresses::remove_device(CUdeviceptr base) {
  std::lock_guard lock(mutex_);
  const auto at = device_.find(base);
  if (at == device_.end()) return std::nullopt;
  DeviceRange range = at->second;
  device_.erase(at);
  return range;
}

void Addresses::remove_context(const Context& context) {
  std::lock_guard lock(mutex_);
  std::erase_if(device_, [&](const auto& item) { return item.second.context == &context; });
}

void Addresses::add_reserved(CUdeviceptr base, std::size_t bytes) {
  std::lock_guard lock(mutex_);
  reserved_[base] = {bytes};
}

void Addresses::remove_reserved(CUdeviceptr base) {
  std::lock_guard lock(mutex_);
  reserved_.erase(base);
}

bool Addresses::is_reserved(CUdeviceptr address) const {
  std::lock_guard lock(mutex_);
  return containing(reserved_, address) != reserved_.end();
}

bool Addresses::add_host(const HostRange& range) {
  std::lock_guard lock(mutex_);
  const auto next = host_.lower_bound(range.base);
  if (next != host_.end() && next->first - range.base < range.bytes) return false;
  if (containing(host_, range.base) != host_.end()) return false;
  if (!range.is_registered) {
    host_low_ = std::min(host_low_.load(), range.base);
    host_high_ = std::max(host_high_.load(), range.base + range.bytes);
  }
  HostRange& known = host_[range.base];
  known = range;
  known.buffer_id = ++last_buffer_id_;
  return true;
}

std::optional<HostRange> Addresses::host(const void* address) const {
  std::lock_guard lock(mutex_);
  const auto at = containing(host_, reinterpret_cast<std::uintptr_t>(address));
  if (at == host_.end()) return std::nullopt;
  return at->second;
}

std::optional<HostRange> Addresses::allocated_host(std::uintptr_t address) const {
  if (address < host_low_.load(std::memory_order_relaxed) ||
      address >= host_high_.load(std::memory_order_relaxed))
    return std::nullopt;
  const auto known = host(reinterpret_cast<const void*>(address));
  return known && !known->is_registered ? known : std::nullopt;
}

std::optional<HostRange> Addresses::remove_host(const void* base, bool is_registered) {
  std::lock_guard lock(mutex_);
  const auto at = host_.find(reinterpret_cast<std::uintptr_t>(base));
  if (at == host_.end() || at->second.is_registered != is_registered) return std::nullopt;
  const HostRange range = at->second;
  host_.erase(at);
  return range;
}

bool Addresses::is_within(CUdeviceptr address, std::size_t bytes) const {
  std::lock_guard lock(mutex_);
  auto at = containing(device_, address);
  if (at == device_.end()) return true;
  CUdeviceptr end = at->first + at->second.bytes;
  for (const auto* last = &*at; last->second.is_mapped && bytes > end - address;) {
    ++at;
    if (at == device_.end() || at->first != end || !at->second.is_mapped) break;
    last = &*at;
    end += at->second.bytes;
  }
  return bytes <= end - address;
}

bool Addresses::is_pinned(const void* address, std::size_t bytes) const {
  std::lock_guard lock(mutex_);
  const auto start = reinterpret_cast<std::uintptr_t>(address);
  const auto at = containing(host_, start);
  return at != host_.end() && bytes <= at->second.bytes - (start - at->first);
}

}  // namespace sluice::shim
