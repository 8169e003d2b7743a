// A policy says which tenant a device serves next. The dispatcher keeps queues, the window and the
// limits; a policy only orders those that may run. One file per policy.
#pragma once

#include "scheduler/device/tenant_state.h"

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

namespace sluice::scheduler {

/// Start tags with a virtual time for each class (start-time fair queueing on measured time),
/// which the policies share. Virtual time never goes back: else a tenant that its limit holds
/// would drag it back, and newcomers would be owed what they never waited for.
class Tags {
 public:
  /// What a tenant that was idle may claim of the past, in device time: enough to answer a burst at
  /// once, too little to push the others away.
  static constexpr Duration kSleeperCredit = std::chrono::milliseconds(5);
  /// Debt is carried, not forgiven: else a tenant whose commands take longer than they did before
  /// would have the difference for nothing. The bound is for a measurement that went wrong.
  static constexpr Duration kDebtMax = std::chrono::seconds(10);

  /// It gets this share; what it is owed and owes stays the same device time.
  void change(TenantState& tenant, const Share& share) const;
  /// It has work again, or its bucket has opened: it does not live on old claims.
  void lift(TenantState& tenant) const;
  /// It is served: `cost` of device time.
  void charge(TenantState& tenant, Duration cost);
  /// A command that was charged with an estimate took `actual`.
  void correct(TenantState& tenant, Duration estimate, Duration actual) const;

 private:
  std::array<double, kClassCount> virtual_ns_{};
};

class Policy {
 public:
  virtual ~Policy() = default;
  struct Choice {
    TenantState* tenant = nullptr;
    bool is_reserved = false;  ///< served because its guarantee is due
  };
  /// One of `ready` (not empty): tenants with work whose limit allows it, by id.
  [[nodiscard]] virtual Choice pick(Time now, std::span<TenantState* const> ready) const = 0;
  /// The fraction of the device that the tenant may use; `weights` = of all tenants that are
  /// attached to it.
  [[nodiscard]] virtual double limit(const TenantState& tenant, double weights) const;
};

/// "fair-share" (the default), "strict-slice" or "priority"; null: no such policy.
std::unique_ptr<Policy> make_policy(std::string_view name);
std::unique_ptr<Policy> make_fair_share();
std::unique_ptr<Policy> make_strict_slice();
std::unique_ptr<Policy> make_priority();

/// Of `ready`, whose guarantee has been due longest; nothing if none is.
TenantState* most_overdue(Time now, std::span<TenantState* const> ready);
/// Of `ready`, the highest class, and in it who has had least for its weight.
TenantState* least_served(std::span<TenantState* const> ready);

}  // namespace sluice::scheduler
