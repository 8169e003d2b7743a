// Everybody gets its slice and never more, even if the device idles: a tenant's speed then does not
// depend on what the others do. The slice is the guarantee, or else the tenant's part by weight of
// what is attached.
#include "scheduler/device/policy.h"

#include <algorithm>

namespace sluice::scheduler {
namespace {

class StrictSlice final : public Policy {
 public:
  [[nodiscard]] Choice pick(Time /*now*/, std::span<TenantState* const> ready) const override {
    return {least_served(ready), false};
  }
  [[nodiscard]] double limit(const TenantState& tenant, double weights) const override {
    const Share& share = tenant.share;
    const double slice =
        share.guarantee > 0 ? share.guarantee : share.weight / std::max(weights, share.weight);
    return std::min(slice, share.limit);
  }
};

}  // namespace

std::unique_ptr<Policy> make_strict_slice() {
  return std::make_unique<StrictSlice>();
}

}  // namespace sluice::scheduler
