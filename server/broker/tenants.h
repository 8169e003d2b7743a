// Who may use the server: the tenants of sluiced.toml with the changes of sluicectl on top.
// Confined to the broker's thread.
#pragma once

#include "common/result.h"
#include "server/config/config.h"
#include "server/config/overrides.h"
#include "server/store/state.h"

#include <string>
#include <string_view>
#include <vector>

namespace sluice::server {

class TenantTable {
 public:
  TenantTable() = default;
  /// Changes are kept in `state`, which outlives this. Errors: what is there makes no sense.
  static Result<TenantTable> open(std::vector<config::Tenant> from_file, store::State& state);

  [[nodiscard]] const std::vector<config::Tenant>& all() const { return tenants_; }
  /// nullptr if there is none; valid until the next change.
  [[nodiscard]] const config::Tenant* find(std::string_view name) const;
  [[nodiscard]] std::string source_of(std::string_view name) const;  ///< as in TenantInfo

  /// sluiced.toml was read again.
  void replace_file(std::vector<config::Tenant> from_file);
  /// Nothing is changed unless it could be saved. Err(kInvalidArgument) for a share that cannot be,
  /// or a name that could not be typed: 1 to 64 letters, digits and ". _ - @".
  Status change(const std::string& name, const config::TenantOverride& change);
  /// Err(kNotFound).
  Status remove(const std::string& name);

 private:
  /// Null: what was changed of the tenant is forgotten.
  Status keep(const std::string& name, const config::TenantOverride* change);

  std::vector<config::Tenant> from_file_, tenants_;
  config::Overrides overrides_;
  store::State* state_ = nullptr;
};

}  // namespace sluice::server
