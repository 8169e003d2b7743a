#include "server/config/overrides.h"

#include "common/fd.h"
#include "common/format.h"
#include "server/config/duration.h"
#include "server/config/section.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

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

/// As a basic string of TOML.
std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

std::string text_of(const Overrides& overrides) {
  std::string out =
      "# Written by sluiced when sluicectl changes tenants; wins over sluiced.toml key by key.\n"
      "# Edit it only while sluiced is stopped.\n";
  for (const auto& [name, o] : overrides) {
    out += format("\n[[tenant]]\nname = {}\n", quoted(name));
    if (o.is_removed) out += "removed = true\n";
    if (o.memory_limit_bytes) out += format("memory_limit = \"{}\"\n", *o.memory_limit_bytes);
    if (o.max_sessions) out += format("max_sessions = {}\n", *o.max_sessions);
    if (o.idle_timeout) out += format("idle_timeout = \"{}\"\n", duration_text(*o.idle_timeout));
    if (o.max_duration) out += format("max_duration = \"{}\"\n", duration_text(*o.max_duration));
    out += toml_of(o.share);
    if (o.token_hash)
      out += format("token_sha256 = \"{}\"\n",
                    o.token_hash->has_value() ? hash_text(**o.token_hash) : std::string(kRevoked));
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

Status save_overrides(const Overrides& overrides, const std::string& path) {
  const std::string text = text_of(overrides);
  const std::string fresh = path + ".new";
  const Fd fd(::open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!fd.valid()) return fail(system_error("writing " + fresh, errno));
  if (::write(fd.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
      ::fsync(fd.get()) != 0)
    return fail(system_error("writing " + fresh, errno != 0 ? errno : EIO));
  if (std::rename(fresh.c_str(), path.c_str()) != 0)
    return fail(system_error("replacing " + path, errno));
  const std::string folder = path.substr(0, path.find_last_of('/') + 1);
  const Fd parent(
      ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (parent.valid()) ::fsync(parent.get());  // so that the rename itself survives a power cut
  return {};
}

}  // namespace sluice::config
