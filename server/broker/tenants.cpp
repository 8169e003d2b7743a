#include "server/broker/tenants.h"

#include "common/format.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>

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

Result<TenantTable> TenantTable::open(std::vector<config::Tenant> from_file,
                                      const std::string& state_dir) {
  TenantTable table;
  if (!state_dir.empty()) {
    std::error_code failed;
    const bool is_ours = std::filesystem::create_directories(state_dir, failed);
    if (failed) return fail(system_error("creating state_dir " + state_dir, failed.value()));
    if (is_ours) ::chmod(state_dir.c_str(), 0700);
    table.state_file_ = state_dir + "/tenants.toml";
    SLUICE_TRY(table.overrides_, config::load_overrides(table.state_file_));
  }
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

Status TenantTable::keep(config::Overrides overrides) {
  if (!state_file_.empty()) SLUICE_CHECK(config::save_overrides(overrides, state_file_));
  overrides_ = std::move(overrides);
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
  return keep(std::move(next));
}

Status TenantTable::remove(const std::string& name) {
  if (find(name) == nullptr)
    return fail(ErrorCode::kNotFound, format("there is no tenant \"{}\"", name));
  config::Overrides next = overrides_;
  next.erase(name);
  if (find_in(from_file_, name) != nullptr) next[name].is_removed = true;
  return keep(std::move(next));
}

}  // namespace sluice::server
