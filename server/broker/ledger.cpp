#include "server/broker/ledger.h"

#include "common/format.h"

#include <algorithm>

namespace sluice::server {
namespace {

/// Null: the kind counts nowhere.
std::uint64_t* place_in(Ledger::Sums& sums, MemoryClass of) {
  switch (of) {
    case MemoryClass::kSlice:
      return &sums.slice_bytes;
    case MemoryClass::kOverhead:
      return &sums.overhead_bytes;
    case MemoryClass::kNeither:
      return nullptr;
  }
  return nullptr;
}

bool fits(std::uint64_t bytes, std::uint64_t used, std::uint64_t limit) {
  return used <= limit && bytes <= limit - used;
}

Ledger::Sums sums_of_kinds(const MemoryByKind& kinds) {
  return {sum_of(kinds, MemoryClass::kSlice), sum_of(kinds, MemoryClass::kOverhead)};
}

void add_to(Ledger::Sums& sums, const Ledger::Sums& more) {
  sums.slice_bytes += more.slice_bytes;
  sums.overhead_bytes += more.overhead_bytes;
}

void add_to(MemoryByKind& kinds, const MemoryByKind& more) {
  for (std::size_t i = 0; i < kinds.size(); ++i) kinds[i] += more[i];
}

std::string text_of(const Ledger::Sums& sums) {
  return format("{} bytes of slice and {} of overhead", sums.slice_bytes, sums.overhead_bytes);
}

}  // namespace

std::uint64_t Ledger::counted(const std::string& tenant, const Sums& sums) const {
  return sums.slice_bytes + (charged_.contains(tenant) ? sums.overhead_bytes : 0);
}

Ledger::Verdict Ledger::charge(const Holder& who, MemoryKind kind, std::uint64_t bytes,
                               const Limits& limits) {
  if (is_broken()) return Verdict::kBroken;
  const MemoryClass of = class_of(kind);
  const bool is_of_slice =
      of == MemoryClass::kSlice || (of == MemoryClass::kOverhead && charged_.contains(who.tenant));
  if (is_of_slice && !fits(bytes, used_bytes(who.tenant, who.device), limits.slice_bytes))
    return Verdict::kSliceFull;
  const Sums device = sums_of(who.device);
  if (of != MemoryClass::kNeither &&
      !fits(bytes, device.slice_bytes + device.overhead_bytes, limits.device_bytes))
    return Verdict::kDeviceFull;
  add(who, kind, bytes);
  return is_broken() ? Verdict::kBroken : Verdict::kGranted;
}

bool Ledger::refund(const Holder& who, MemoryKind kind, std::uint64_t bytes) {
  const auto found = entries_.find({who.session, who.device});
  if (found == entries_.end() || found->second.kinds[index_of(kind)] < bytes) return bytes == 0;
  subtract(found->second, who, kind, bytes);
  return true;
}

void Ledger::measure(const Holder& who, MemoryKind kind, std::uint64_t bytes) {
  const auto found = entries_.find({who.session, who.device});
  const std::uint64_t before = found != entries_.end() ? found->second.kinds[index_of(kind)] : 0;
  if (bytes > before)
    add(who, kind, bytes - before);
  else if (bytes < before)
    subtract(found->second, who, kind, before - bytes);
}

void Ledger::add(const Holder& who, MemoryKind kind, std::uint64_t bytes) {
  const SessionKey key{who.session, who.device};
  Entry& entry = entries_[key];
  entry.tenant = who.tenant;
  entry.kinds[index_of(kind)] += bytes;
  for (Sums* sums : {&entry.sums, &tenants_[{who.tenant, who.device}], &devices_[who.device]})
    if (std::uint64_t* const sum = place_in(*sums, class_of(kind)); sum != nullptr) *sum += bytes;
  check(key, entry);
}

void Ledger::subtract(Entry& entry, const Holder& who, MemoryKind kind, std::uint64_t bytes) {
  const MemoryClass of = class_of(kind);
  entry.kinds[index_of(kind)] -= bytes;
  take_from(entry.sums, of, bytes, format("session {}", who.session));
  take_from(tenants_[{entry.tenant, who.device}], of, bytes, "tenant " + entry.tenant);
  take_from(devices_[who.device], of, bytes, format("device {}", who.device));
  check({who.session, who.device}, entry);
}

void Ledger::take_from(Sums& sums, MemoryClass of, std::uint64_t bytes, const std::string& whose) {
  std::uint64_t* const sum = place_in(sums, of);
  if (sum == nullptr) return;
  if (bytes > *sum)
    break_off(format("{} gives back {} bytes and has {}", whose, bytes, text_of(sums)));
  *sum -= std::min(bytes, *sum);
}

void Ledger::note_spare(const Holder& who, std::uint64_t bytes) {
  const auto found = entries_.find({who.session, who.device});
  if (found != entries_.end()) found->second.spare_bytes = bytes;
}

void Ledger::drop(std::uint64_t session) {
  for (auto at = entries_.lower_bound({session, 0});
       at != entries_.end() && at->first.first == session; at = entries_.erase(at)) {
    const std::uint32_t device = at->first.second;
    const std::string& tenant = at->second.tenant;
    for (std::size_t i = 0; i < kMemoryKindCount; ++i)
      subtract(at->second, {session, tenant, device}, static_cast<MemoryKind>(i),
               at->second.kinds[i]);
  }
}

std::uint64_t Ledger::used_bytes(const std::string& tenant, std::uint32_t device) const {
  const auto found = tenants_.find({tenant, device});
  return found != tenants_.end() ? counted(tenant, found->second) : 0;
}

std::uint64_t Ledger::held_bytes(std::uint64_t session, std::uint32_t device) const {
  const auto found = entries_.find({session, device});
  return found != entries_.end() ? counted(found->second.tenant, found->second.sums) : 0;
}

std::uint64_t Ledger::held_bytes(std::uint64_t session) const {
  std::uint64_t sum = 0;
  for (auto at = entries_.lower_bound({session, 0});
       at != entries_.end() && at->first.first == session; ++at)
    sum += counted(at->second.tenant, at->second.sums);
  return sum;
}

/// Only what the client itself allocated can be spare.
std::uint64_t Ledger::spare_bytes(std::uint64_t session, std::uint32_t device) const {
  const auto found = entries_.find({session, device});
  return found != entries_.end()
             ? std::min(found->second.spare_bytes, found->second.sums.slice_bytes)
             : 0;
}

std::uint64_t Ledger::spare_bytes(const std::string& tenant, std::uint32_t device) const {
  std::uint64_t sum = 0;
  for (const auto& [key, entry] : entries_)
    if (key.second == device && entry.tenant == tenant) sum += spare_bytes(key.first, device);
  return sum;
}

MemoryByKind Ledger::kinds_of(std::uint64_t session, std::uint32_t device) const {
  const auto found = entries_.find({session, device});
  return found != entries_.end() ? found->second.kinds : MemoryByKind{};
}

MemoryByKind Ledger::kinds_of(std::uint64_t session) const {
  MemoryByKind sum{};
  for (auto at = entries_.lower_bound({session, 0});
       at != entries_.end() && at->first.first == session; ++at)
    add_to(sum, at->second.kinds);
  return sum;
}

MemoryByKind Ledger::kinds_of(const std::string& tenant) const {
  MemoryByKind sum{};
  for (const auto& [key, entry] : entries_)
    if (entry.tenant == tenant) add_to(sum, entry.kinds);
  return sum;
}

Ledger::Sums Ledger::sums_of(std::uint32_t device) const {
  const auto found = devices_.find(device);
  return found != devices_.end() ? found->second : Sums{};
}

void Ledger::check(const SessionKey& key, const Entry& entry) {
  if (const Sums right = sums_of_kinds(entry.kinds); right != entry.sums)
    break_off(format("session {} of tenant {} has {} on device {}, and by kind {}", key.first,
                     entry.tenant, text_of(entry.sums), key.second, text_of(right)));
}

void Ledger::audit() {
  std::map<TenantKey, Sums> tenants;
  std::map<std::uint32_t, Sums> devices;
  for (const auto& [key, entry] : entries_) {
    check(key, entry);
    add_to(tenants[{entry.tenant, key.second}], entry.sums);
  }
  for (const auto& [key, sums] : tenants_) {
    if (const Sums right = tenants[key]; right != sums)
      break_off(format("tenant {} has {} on device {}, and its sessions {}", key.first,
                       text_of(sums), key.second, text_of(right)));
    add_to(devices[key.second], sums);
  }
  for (const auto& [device, sums] : devices_)
    if (const Sums right = devices[device]; right != sums)
      break_off(format("device {} has {} in use, and by its tenants {}", device, text_of(sums),
                       text_of(right)));
}

void Ledger::break_off(const std::string& why) {
  if (violation_.empty()) violation_ = why;
}

}  // namespace sluice::server
