// A node with one device in use is no node for eight: use up nodes that are begun. Who hurries
// rather has a node for itself.
#include "scheduler/pool/placement/score.h"

namespace sluice::pool {

double score_whole_nodes(const Snapshot& snapshot, std::span<const Place> group,
                         const Request& request) {
  const std::uint32_t node = group.front().at.node;
  const auto count = static_cast<std::uint32_t>(snapshot.node(node).devices.size());
  std::size_t used = 0;
  for (std::uint32_t device = 0; device < count; ++device)
    if (!snapshot.is_unused({.node = node, .device = device})) ++used;
  for (const Place& place : group)
    if (snapshot.is_unused(place.at)) ++used;
  const double part = static_cast<double>(used) / static_cast<double>(count);
  return is_hurried(request.cls) ? 1 - part : part;
}

}  // namespace sluice::pool
