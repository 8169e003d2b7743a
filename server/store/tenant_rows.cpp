#include "server/store/tenant_rows.h"

#include "common/format.h"
#include "common/log.h"

#include <cerrno>
#include <cstdio>

namespace sluice::server::store {
namespace {

using config::TenantOverride;
constexpr std::string_view kRevoked = "revoked";

template <class Number>
std::optional<std::int64_t> whole(const std::optional<Number>& value) {
  if (!value) return std::nullopt;
  return static_cast<std::int64_t>(*value);
}
std::optional<std::int64_t> whole(const std::optional<std::chrono::milliseconds>& value) {
  if (!value) return std::nullopt;
  return value->count();
}

std::optional<std::string_view> class_text(const TenantOverride& change) {
  if (!change.share.cls) return std::nullopt;
  return scheduler::class_name(*change.share.cls);
}

std::optional<std::string> token_text(const TenantOverride& change) {
  if (!change.token_hash) return std::nullopt;
  return change.token_hash->has_value() ? config::hash_text(**change.token_hash)
                                        : std::string(kRevoked);
}

std::optional<double> real_of(const Statement& row, int column) {
  if (row.is_null(column)) return std::nullopt;
  return row.real(column);
}

template <class Value, class As>
void take(const Statement& row, int column, std::optional<Value>* out, As as) {
  if (!row.is_null(column)) *out = as(row.integer(column));
}

Result<TenantOverride> read_row(const Statement& row) {
  using Ms = std::chrono::milliseconds;
  TenantOverride out;
  out.is_removed = row.integer(1) != 0;
  take(row, 2, &out.memory_limit_bytes, [](auto v) { return static_cast<std::uint64_t>(v); });
  take(row, 3, &out.max_sessions, [](auto v) { return static_cast<std::uint32_t>(v); });
  take(row, 4, &out.idle_timeout, [](auto v) { return Ms(v); });
  take(row, 5, &out.max_duration, [](auto v) { return Ms(v); });
  out.share.guarantee = real_of(row, 6);
  out.share.limit = real_of(row, 7);
  out.share.weight = real_of(row, 8);
  if (!row.is_null(9)) {
    SLUICE_TRY(out.share.cls, config::parse_class(row.text(9)));
  }
  if (row.is_null(10)) return out;
  out.token_hash.emplace();
  if (row.text(10) == kRevoked) return out;
  SLUICE_TRY(const config::TokenHash hash, config::parse_hash(row.text(10)));
  out.token_hash->emplace(hash);
  return out;
}

/// In a transaction that is under way.
Status write_row(Database& database, const std::string& name, const TenantOverride& change) {
  SLUICE_TRY(Statement put,
             database.prepare("INSERT OR REPLACE INTO tenant VALUES (?,?,?,?,?,?,?,?,?,?,?)"));
  put.bind(name).bind(std::int64_t{change.is_removed});
  put.bind_optional(whole(change.memory_limit_bytes)).bind_optional(whole(change.max_sessions));
  put.bind_optional(whole(change.idle_timeout)).bind_optional(whole(change.max_duration));
  put.bind_optional(change.share.guarantee).bind_optional(change.share.limit);
  put.bind_optional(change.share.weight);
  const auto cls = class_text(change);
  const auto token = token_text(change);
  put.bind_optional(cls);
  token ? put.bind(std::string_view(*token)) : put.bind_null();
  return put.run();
}

Status remove_row(Database& database, const std::string& name) {
  SLUICE_TRY(Statement remove, database.prepare("DELETE FROM tenant WHERE name = ?"));
  return remove.bind(std::string_view(name)).run();
}

}  // namespace

Result<config::Overrides> load_tenants(State& state) {
  SLUICE_TRY(Statement rows, state.database().prepare("SELECT * FROM tenant"));
  config::Overrides out;
  for (;;) {
    SLUICE_TRY(const bool has_row, rows.step());
    if (!has_row) return out;
    const std::string name = rows.text(0);
    auto change = read_row(rows);
    if (!change)
      return fail(change.error().with_context(format("{}: tenant \"{}\"", state.path(), name)));
    out[name] = *change;
  }
}

Status save_tenant(State& state, const std::string& name, const TenantOverride* change) {
  Database& database = state.database();
  if (database.is_file_gone())
    return fail(ErrorCode::kNotFound,
                format("{} was removed or replaced while the server runs; nothing is changed: "
                       "restart the server, or put it back",
                       state.path()));
  return database.transaction([&] {
    return change != nullptr ? write_row(database, name, *change) : remove_row(database, name);
  });
}

Status import_older_file(State& state) {
  if (state.folder().empty()) return {};
  const std::string path = state.folder() + "/tenants.toml";
  SLUICE_TRY(const config::Overrides older, config::load_overrides(path));
  if (older.empty()) return {};
  Status imported = state.database().transaction([&]() -> Status {
    for (const auto& [name, change] : older)
      SLUICE_CHECK(write_row(state.database(), name, change));
    return {};
  });
  if (!imported) return imported;
  // If we die before this, it is imported again, and says the same.
  if (std::rename(path.c_str(), (path + ".imported").c_str()) != 0)
    return fail(system_error("renaming " + path, errno));
  SLUICE_LOG_INFO("session", "{} tenants of {} are in {} now; the file is kept as {}.imported",
                  older.size(), path, state.path(), path);
  return {};
}

}  // namespace sluice::server::store
