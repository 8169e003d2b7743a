// Which devices of a node would do, best first, or why there are none.
#pragma once

#include "scheduler/pool/placement/score.h"

#include <array>
#include <optional>
#include <vector>

namespace sluice::pool {

struct Candidate {
  Place place;
  double score = 0;  ///< by itself
};

struct NodeFit {
  std::size_t node = 0;
  std::vector<Candidate> candidates;  ///< one for each device that would do, best first
  /// What is nearest to a yes among those that would not.
  Objection nearest;
};

/// Devices that were taken out, by the cause.
using Removed = std::array<unsigned, kCauseCount>;

/// Adds to `removed`.
NodeFit fit_node(const View& view, std::size_t node, const Request& request,
                 const PlacementOptions& options, Removed* removed);

}  // namespace sluice::pool
