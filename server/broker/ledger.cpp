#include "server/broker/ledger.h"

#include <algorithm>

namespace sluice::server {

bool Ledger::charge(std::uint64_t session, const std::string& tenant, std::uint32_t device,
                    std::uint64_t bytes, std::uint64_t limit_bytes) {
  const std::uint64_t used = used_bytes(tenant, device);
  if (used > limit_bytes || bytes > limit_bytes - used) return false;
  by_tenant_[{tenant, device}] += bytes;
  by_session_[{session, device}] += bytes;
  return true;
}

void Ledger::refund(std::uint64_t session, const std::string& tenant, std::uint32_t device,
                    std::uint64_t bytes) {
  const auto held = by_session_.find({session, device});
  if (held == by_session_.end()) return;
  const std::uint64_t given = std::min(bytes, held->second);
  held->second -= given;
  by_tenant_[{tenant, device}] -= given;
  if (held->second == 0) by_session_.erase(held);
}

void Ledger::note_spare(std::uint64_t session, const std::string& tenant, std::uint32_t device,
                        std::uint64_t bytes) {
  if (held_bytes(session, device) > 0) spare_[{session, device}] = {tenant, bytes};
}

std::uint64_t Ledger::spare_bytes(std::uint64_t session, std::uint32_t device) const {
  const auto found = spare_.find({session, device});
  return found != spare_.end() ? std::min(found->second.bytes, held_bytes(session, device)) : 0;
}

std::uint64_t Ledger::spare_bytes(const std::string& tenant, std::uint32_t device) const {
  std::uint64_t sum = 0;
  for (const auto& [key, spare] : spare_)
    if (key.second == device && spare.tenant == tenant) sum += spare_bytes(key.first, device);
  return sum;
}

void Ledger::drop(std::uint64_t session, const std::string& tenant) {
  std::erase_if(spare_, [&](const auto& known) { return known.first.first == session; });
  for (auto held = by_session_.lower_bound({session, 0});
       held != by_session_.end() && held->first.first == session; held = by_session_.erase(held))
    by_tenant_[{tenant, held->first.second}] -= held->second;
}

std::uint64_t Ledger::used_bytes(const std::string& tenant, std::uint32_t device) const {
  const auto found = by_tenant_.find({tenant, device});
  return found != by_tenant_.end() ? found->second : 0;
}

std::uint64_t Ledger::used_bytes(std::uint32_t device) const {
  std::uint64_t sum = 0;
  for (const auto& [key, bytes] : by_tenant_)
    if (key.second == device) sum += bytes;
  return sum;
}

std::uint64_t Ledger::held_bytes(std::uint64_t session, std::uint32_t device) const {
  const auto found = by_session_.find({session, device});
  return found != by_session_.end() ? found->second : 0;
}

std::uint64_t Ledger::held_bytes(std::uint64_t session) const {
  std::uint64_t sum = 0;
  for (auto held = by_session_.lower_bound({session, 0});
       held != by_session_.end() && held->first.first == session; ++held)
    sum += held->second;
  return sum;
}

}  // namespace sluice::server
