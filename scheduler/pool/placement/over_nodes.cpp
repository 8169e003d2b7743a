// A request that may span: devices of as few nodes as possible, near each other.
#include "scheduler/pool/placement/placement.h"

#include <algorithm>
#include <map>

namespace sluice::pool {
namespace {

using Fits = std::vector<const NodeFit*>;

std::size_t devices_in(const Fits& fits) {
  std::size_t sum = 0;
  for (const NodeFit* fit : fits) sum += fit->candidates.size();
  return sum;
}

/// The smallest rack that is large enough: larger ones stay for those that need them. If there is
/// none, all nodes.
Fits nodes_to_use(const Snapshot& snapshot, const std::vector<NodeFit>& fits, std::size_t count) {
  std::map<std::string_view, Fits> racks;
  Fits all;
  for (const NodeFit& fit : fits) {
    if (fit.candidates.empty()) continue;
    all.push_back(&fit);
    const std::string& rack = snapshot.node(fit.node).rack;
    if (!rack.empty()) racks[rack].push_back(&fit);
  }
  const Fits* best = nullptr;
  for (const auto& [name, nodes] : racks) {
    const std::size_t devices = devices_in(nodes);
    if (devices >= count && (best == nullptr || devices < devices_in(*best))) best = &nodes;
  }
  return best == nullptr ? all : *best;
}

}  // namespace

std::vector<Place> pick_over_nodes(const Snapshot& snapshot, const std::vector<NodeFit>& fits,
                                   const Request& request, const PlacementOptions& options) {
  std::size_t left = request.gpus;
  Fits nodes = nodes_to_use(snapshot, fits, left);
  if (devices_in(nodes) < left) return {};
  // The fullest first makes the number of nodes least.
  std::stable_sort(nodes.begin(), nodes.end(), [](const NodeFit* a, const NodeFit* b) {
    return a->candidates.size() > b->candidates.size();
  });
  std::vector<Place> out;
  for (std::size_t i = 0; left > 0; ++i) {
    const NodeFit* fit = nodes[i];
    // The last one: the smallest that has enough, in place of one that would be broken up.
    for (std::size_t j = i + 1; j < nodes.size() && fit->candidates.size() > left; ++j)
      if (nodes[j]->candidates.size() >= left) fit = nodes[j];
    const std::size_t count = std::min(left, fit->candidates.size());
    for (const Place& place : pick_on_node(snapshot, *fit, count, request, options))
      out.push_back(place);
    left -= count;
  }
  return out;
}

}  // namespace sluice::pool
