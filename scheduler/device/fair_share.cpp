// Work-conserving: guarantees that are due first, in whatever class; then the highest class; in it,
// who has had least device time for its weight.
#include "scheduler/device/policy.h"

namespace sluice::scheduler {
namespace {

class FairShare final : public Policy {
 public:
  [[nodiscard]] Choice pick(Time now, std::span<TenantState* const> ready) const override {
    if (TenantState* due = most_overdue(now, ready)) return {due, true};
    return {least_served(ready), false};
  }
};

}  // namespace

std::unique_ptr<Policy> make_fair_share() {
  return std::make_unique<FairShare>();
}

}  // namespace sluice::scheduler
