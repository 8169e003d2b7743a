// Which devices of one node a request of several GPUs gets.
#include "scheduler/pool/placement/placement.h"

#include <algorithm>
#include <set>
#include <utility>

namespace sluice::pool {
namespace {

using Domain = std::pair<int, std::string_view>;

Domain domain_of(const Snapshot& snapshot, const Place& place) {
  const Device& device = snapshot.device(place.at);
  return {device.numa_node, device.rail};
}

/// The best of the domain, filled up with the best of the others.
std::vector<Place> group_in(const Snapshot& snapshot, const NodeFit& fit, std::size_t count,
                            const Domain& domain) {
  std::vector<Place> out;
  for (const bool is_inside : {true, false})
    for (const Candidate& candidate : fit.candidates)
      if (out.size() < count && (domain_of(snapshot, candidate.place) == domain) == is_inside)
        out.push_back(candidate.place);
  return out;
}

}  // namespace

std::vector<Place> pick_on_node(const Snapshot& snapshot, const NodeFit& fit, std::size_t count,
                                const Request& request, const PlacementOptions& options) {
  std::vector<Place> best;
  for (std::size_t i = 0; i < count; ++i) best.push_back(fit.candidates[i].place);
  // One device, or all that there are: nothing to choose.
  if (count == 1 || count == fit.candidates.size()) return best;
  double best_score = score_group(snapshot, best, request, options).total();
  std::set<Domain> domains;
  for (const Candidate& candidate : fit.candidates)
    domains.insert(domain_of(snapshot, candidate.place));
  for (const Domain& domain : domains) {
    std::vector<Place> group = group_in(snapshot, fit, count, domain);
    const double score = score_group(snapshot, group, request, options).total();
    if (score <= best_score) continue;
    best_score = score;
    best = std::move(group);
  }
  return best;
}

}  // namespace sluice::pool
