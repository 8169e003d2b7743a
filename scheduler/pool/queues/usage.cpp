#include "scheduler/pool/queues/usage.h"

#include <cmath>

namespace sluice::pool {

void Usage::advance(const QueueTree& tree, const std::vector<Resources>& allocated, Time now) {
  const Duration passed = advanced_to_ && now > *advanced_to_ ? now - *advanced_to_ : Duration(0);
  advanced_to_ = advanced_to_ ? std::max(*advanced_to_, now) : now;
  if (passed == Duration(0)) return;
  const double kept =
      std::exp2(-static_cast<double>(passed.count()) / static_cast<double>(half_life_.count()));
  // Also of queues that are gone: they may come back.
  for (auto& [name, averages] : averages_)
    for (double& average : averages) average *= kept;
  for (std::size_t i = 0; i < tree.size(); ++i) {
    Averages& averages = averages_[tree.spec(i).name];
    for (const Resource resource : kResources)
      averages[static_cast<std::size_t>(resource)] +=
          (1 - kept) * static_cast<double>(allocated[i][resource]);
  }
}

double Usage::fraction(std::string_view queue, Resource resource, const Resources& capacity) const {
  const auto found = averages_.find(queue);
  if (found == averages_.end() || capacity[resource] <= 0) return 0;
  return found->second[static_cast<std::size_t>(resource)] /
         static_cast<double>(capacity[resource]);
}

}  // namespace sluice::pool
