// What queues have had lately: an average over the past in which what is older counts less. Fair
// shares give those less who have had more.
#pragma once

#include "scheduler/pool/queues/queue_tree.h"

#include <array>
#include <map>
#include <string>
#include <vector>

namespace sluice::pool {

/// Externally locked. Kept by name: a queue keeps its past when the tree changes.
class Usage {
 public:
  /// After `half_life` the past counts half.
  explicit Usage(Duration half_life = std::chrono::hours(24)) : half_life_(half_life) {}

  /// Since the last call, queues had these amounts (by place in the tree, parents included). Time
  /// that goes back counts as none.
  void advance(const QueueTree& tree, const std::vector<Resources>& allocated, Time now);
  /// The average, as a fraction of `capacity`; 0 for a queue that was never seen.
  [[nodiscard]] double fraction(std::string_view queue, Resource resource,
                                const Resources& capacity) const;

 private:
  using Averages = std::array<double, kResourceCount>;
  Duration half_life_;
  std::optional<Time> advanced_to_;
  std::map<std::string, Averages, std::less<>> averages_;
};

}  // namespace sluice::pool
