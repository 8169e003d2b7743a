// What sluicectl has changed about tenants, kept apart from the administrator's sluiced.toml
// (server/store/tenant_rows.h). It wins over sluiced.toml key by key; keys that were never changed
// with sluicectl follow sluiced.toml.
#pragma once

#include "common/result.h"
#include "server/config/config.h"
#include "server/config/share_change.h"

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace sluice::config {

struct TenantOverride {
  std::optional<std::uint64_t> memory_limit_bytes;
  std::optional<std::uint32_t> max_sessions;
  std::optional<std::chrono::milliseconds> idle_timeout, max_duration;
  ShareChange share;
  /// A token made with sluicectl; an empty inner value: revoked.
  std::optional<std::optional<TokenHash>> token_hash;
  bool is_removed = false;  ///< hides a tenant of sluiced.toml

  bool operator==(const TenantOverride&) const = default;
  /// Where `later` says something, it wins.
  void merge(const TenantOverride& later);
};
using Overrides = std::map<std::string, TenantOverride>;

/// The tenants of sluiced.toml as sluicectl left them, and those that only sluicectl made.
std::vector<Tenant> apply_overrides(std::vector<Tenant> tenants, const Overrides& overrides);

/// Of the TOML file in which older servers kept them. An absent file is an empty one. Errors as
/// config::load().
Result<Overrides> load_overrides(const std::string& path);

}  // namespace sluice::config
