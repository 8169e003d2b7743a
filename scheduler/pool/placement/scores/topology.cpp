// GPUs that work together are near each other: copies between them do not cross the sockets.
#include "scheduler/pool/placement/score.h"

#include <algorithm>
#include <map>
#include <utility>

namespace sluice::pool {

double score_topology(const Snapshot& snapshot, std::span<const Place> group) {
  std::map<std::pair<int, std::string_view>, std::size_t> together;
  std::size_t most = 0;
  for (const Place& place : group) {
    const Device& device = snapshot.device(place.at);
    most = std::max(most, ++together[{device.numa_node, device.rail}]);
  }
  return static_cast<double>(most) / static_cast<double>(group.size());
}

}  // namespace sluice::pool
