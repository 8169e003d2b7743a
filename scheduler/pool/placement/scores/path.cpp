// What bytes cost from the client to the device: shared memory, one switch, one rack, the network.
#include "scheduler/pool/placement/score.h"

namespace sluice::pool {

double score_path(const Snapshot& snapshot, const Place& place, const Request& request) {
  const Node& node = snapshot.node(place.at.node);
  const Origin& origin = request.origin;
  const auto is_same = [](const std::string& a, const std::string& b) {
    return !a.empty() && a == b;
  };
  if (is_same(origin.node, node.name)) return 1;
  if (is_same(origin.rail, snapshot.device(place.at).rail)) return 2.0 / 3;
  if (is_same(origin.rack, node.rack)) return 1.0 / 3;
  return 0;
}

}  // namespace sluice::pool
