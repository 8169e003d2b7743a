// The highest class first, whatever was guaranteed to the others; inside a class as fair share.
#include "scheduler/device/policy.h"

#include <vector>

namespace sluice::scheduler {
namespace {

class Priority final : public Policy {
 public:
  [[nodiscard]] Choice pick(Time now, std::span<TenantState* const> ready) const override {
    const Class top = least_served(ready)->share.cls;
    std::vector<TenantState*> peers;
    for (TenantState* tenant : ready)
      if (tenant->share.cls == top) peers.push_back(tenant);
    if (TenantState* due = most_overdue(now, peers)) return {due, true};
    return {least_served(peers), false};
  }
};

}  // namespace

std::unique_ptr<Policy> make_priority() {
  return std::make_unique<Priority>();
}

}  // namespace sluice::scheduler
