#include "server/broker/tenants.h"

#include "common/format.h"
#include "server/store/tenant_rows.h"

#include <algorithm>

namespace sluice::server {
namespace {

constexpr std::size_t kNameBytesMax = 64;

bool is_good_name(const std::string& name) {
  return !name.empty() && name.size() <= kNameBytesMax &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  std::string_view("._-@").find(c) != std::string_view::npos;
         });
}

const config::Tenant* find_in(const std::vector<config::Tenant>& tenants, std::string_view name) {
  const auto found = std::find_if(tenants.begin(), tenants.end(),
                                  [&](const config::Tenant& t) { return t.name == name; });
  return found != tenants.end() ? &*found : nullptr;
}

}  // namespace

Result<TenantTable> TenantTable::open(std::vector<config::Tenant> from_file, store::State& state) {
  TenantTable table;
  table.state_ = &state;
  SLUICE_CHECK(store::import_older_file(state));
  SLUICE_TRY(table.overrides_, store::load_tenants(state));
  table.replace_file(std::move(from_file));
  return table;
}

const config::Tenant* TenantTable::find(std::string_view name) const {
  return find_in(tenants_, name);
}

std::string TenantTable::source_of(std::string_view name) const {
  const bool is_in_file = find_in(from_file_, name) != nullptr;
  const bool is_changed = overrides_.contains(std::string(name));
  return is_in_file && is_changed ? "both" : is_in_file ? "file" : "sluicectl";
}

void TenantTable::replace_file(std::vector<config::Tenant> from_file) {
  from_file_ = std::move(from_file);
  tenants_ = config::apply_overrides(from_file_, overrides_);
}

Status TenantTable::keep(const std::string& name, const config::TenantOverride* change) {
  SLUICE_CHECK(store::save_tenant(*state_, name, change));
  if (change != nullptr)
    overrides_[name] = *change;
  else
    overrides_.erase(name);
  tenants_ = config::apply_overrides(from_file_, overrides_);
  return {};
}

Status TenantTable::change(const std::string& name, const config::TenantOverride& change) {
  if (find(name) == nullptr && !is_good_name(name))
    return fail(ErrorCode::kInvalidArgument,
                format("\"{}\" is no name for a tenant: use 1 to {} letters, digits and . _ - @",
                       name, kNameBytesMax));
  config::Overrides next = overrides_;
  config::TenantOverride& mine = next[name];
  if (mine.is_removed) mine = {};  // it comes back as sluiced.toml has it, not as it was
  mine.merge(change);
  const std::vector<config::Tenant> after = config::apply_overrides(from_file_, next);
  if (const auto is_right = scheduler::check(find_in(after, name)->share); !is_right)
    return fail(is_right.error().with_context("tenant \"" + name + "\""));
  const config::TenantOverride changed = mine;
  return keep(name, &changed);
}

Status TenantTable::remove(const std::string& name) {
  if (find(name) == nullptr)
    return fail(ErrorCode::kNotFound, format("there is no tenant \"{}\"", name));
  if (find_in(from_file_, name) == nullptr) return keep(name, nullptr);
  config::TenantOverride hidden;
  hidden.is_removed = true;
  return keep(name, &hidden);
}

}  // namespace sluice::server
