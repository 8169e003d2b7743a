#include "server/config/overrides.h"

#include "common/format.h"
#include "server/config/section.h"

#include <algorithm>

namespace sluice::config {
namespace {

constexpr std::string_view kRevoked = "revoked";

Result<TenantOverride> read_override(const toml::table& table, const std::string& path,
                                     std::string* name) {
  Section s(table, "[[tenant]]", path);
  TenantOverride out;
  SLUICE_CHECK(s.read("name", name));
  SLUICE_CHECK(s.read("removed", &out.is_removed));
  if (s.has("memory_limit"))
    SLUICE_CHECK(s.read_size("memory_limit", &out.memory_limit_bytes.emplace()));
  if (s.has("max_sessions")) SLUICE_CHECK(s.read("max_sessions", &out.max_sessions.emplace()));
  if (s.has("idle_timeout"))
    SLUICE_CHECK(s.read_duration("idle_timeout", &out.idle_timeout.emplace()));
  if (s.has("max_duration"))
    SLUICE_CHECK(s.read_duration("max_duration", &out.max_duration.emplace()));
  SLUICE_TRY(out.share, read_share(s));
  for (const char* key : {"memory_limit", "max_sessions", "idle_timeout", "max_duration"})
    s.get(key);
  std::string hash;
  SLUICE_CHECK(s.read("token_sha256", &hash));
  SLUICE_CHECK(s.finish());
  if (name->empty())
    return fail(ErrorCode::kInvalidArgument,
                format("{}:{}: a tenant without a name", path, table.source().begin.line));
  if (hash == kRevoked) {
    out.token_hash.emplace();
  } else if (!hash.empty()) {
    auto parsed = parse_hash(hash);
    if (!parsed) return fail(parsed.error().with_context(path + ": tenant \"" + *name + "\""));
    out.token_hash.emplace(*parsed);
  }
  return out;
}

}  // namespace

void TenantOverride::merge(const TenantOverride& later) {
  if (later.memory_limit_bytes) memory_limit_bytes = later.memory_limit_bytes;
  if (later.max_sessions) max_sessions = later.max_sessions;
  if (later.idle_timeout) idle_timeout = later.idle_timeout;
  if (later.max_duration) max_duration = later.max_duration;
  share.merge(later.share);
  if (later.token_hash) token_hash = later.token_hash;
  is_removed = later.is_removed;
}

std::vector<Tenant> apply_overrides(std::vector<Tenant> tenants, const Overrides& overrides) {
  for (const auto& [name, o] : overrides) {
    auto found = std::find_if(tenants.begin(), tenants.end(),
                              [&, wanted = &name](const Tenant& t) { return t.name == *wanted; });
    if (o.is_removed) {
      if (found != tenants.end()) tenants.erase(found);
      continue;
    }
    if (found == tenants.end()) {
      Tenant fresh;
      fresh.name = name;
      found = tenants.insert(tenants.end(), std::move(fresh));
    }
    if (o.memory_limit_bytes) found->memory_limit_bytes = *o.memory_limit_bytes;
    if (o.max_sessions) found->max_sessions = *o.max_sessions;
    if (o.idle_timeout) found->idle_timeout = *o.idle_timeout;
    if (o.max_duration) found->max_duration = *o.max_duration;
    found->share = o.share.applied_to(found->share);
    if (o.token_hash) found->token_hash = *o.token_hash;
  }
  return tenants;
}

Result<Overrides> load_overrides(const std::string& path) {
  const auto loaded = load_table(path);
  if (!loaded && loaded.error().code == ErrorCode::kNotFound) return Overrides{};
  if (!loaded) return fail(loaded.error().with_context("sluicectl's changes"));
  const toml::table& root = *loaded;
  Section top(root, "the file", path);
  Overrides out;
  if (const toml::node* tenants = top.get("tenant"); tenants != nullptr) {
    if (!tenants->is_array()) return top.wrong(*tenants, "tenant", "[[tenant]] sections");
    for (const toml::node& entry : *tenants->as_array()) {
      if (!entry.is_table()) return top.wrong(entry, "tenant", "[[tenant]] sections");
      std::string name;
      SLUICE_TRY(TenantOverride one, read_override(*entry.as_table(), path, &name));
      out[name] = one;
    }
  }
  SLUICE_CHECK(top.finish());
  return out;
}

}  // namespace sluice::config
