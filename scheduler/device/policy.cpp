#include "scheduler/device/policy.h"

#include <algorithm>

namespace sluice::scheduler {
namespace {

double weighted(Duration time, const TenantState& tenant) {
  return static_cast<double>(time.count()) / tenant.share.weight;
}
std::size_t index(Class cls) {
  return static_cast<std::size_t>(cls);
}

}  // namespace

void Tags::change(TenantState& tenant, const Share& share) const {
  const double past_ns = virtual_ns_[index(tenant.share.cls)];
  const double debt_ns = (tenant.tag_ns - past_ns) * tenant.share.weight;
  tenant.share = share;
  tenant.tag_ns = virtual_ns_[index(share.cls)] + debt_ns / share.weight;
}

void Tags::lift(TenantState& tenant) const {
  const double claim_ns = virtual_ns_[index(tenant.share.cls)] - weighted(kSleeperCredit, tenant);
  tenant.tag_ns = std::max(tenant.tag_ns, claim_ns);
}

void Tags::charge(TenantState& tenant, Duration cost) {
  double& virtual_ns = virtual_ns_[index(tenant.share.cls)];
  virtual_ns = std::max(virtual_ns, tenant.tag_ns);
  tenant.tag_ns += weighted(cost, tenant);
}

void Tags::correct(TenantState& tenant, Duration estimate, Duration actual) const {
  tenant.tag_ns += weighted(actual - estimate, tenant);
  const double latest_ns = virtual_ns_[index(tenant.share.cls)] + weighted(kDebtMax, tenant);
  tenant.tag_ns = std::min(tenant.tag_ns, latest_ns);
}

double Policy::limit(const TenantState& tenant, double /*weights*/) const {
  return tenant.share.limit;
}

TenantState* most_overdue(Time now, std::span<TenantState* const> ready) {
  TenantState* found = nullptr;
  for (TenantState* tenant : ready) {
    if (tenant->share.guarantee <= 0 || tenant->due > now) continue;
    if (found == nullptr || tenant->due < found->due) found = tenant;
  }
  return found;
}

TenantState* least_served(std::span<TenantState* const> ready) {
  return *std::min_element(ready.begin(), ready.end(),
                           [](const TenantState* a, const TenantState* b) {
                             if (a->share.cls != b->share.cls) return a->share.cls > b->share.cls;
                             return a->tag_ns < b->tag_ns;
                           });
}

std::unique_ptr<Policy> make_policy(std::string_view name) {
  if (name == "fair-share") return make_fair_share();
  if (name == "strict-slice") return make_strict_slice();
  if (name == "priority") return make_priority();
  return nullptr;
}

}  // namespace sluice::scheduler
