// Which devices a request gets: every place that no filter refuses is scored, and the best is
// taken. All on one node, unless the request may span. Decides only; nothing is changed.
#pragma once

#include "scheduler/pool/placement/candidates.h"

#include <string>
#include <vector>

namespace sluice::pool {

struct NodeRefusal {
  std::size_t node;
  Refusal why;
};

struct Decision {
  std::vector<Part> parts;  ///< empty: nowhere
  Scores scores;            ///< of the parts; of several nodes: the mean
  /// The decision holds while these nodes have these versions; whoever writes it down compares.
  struct Basis {
    std::size_t node;
    std::uint64_t version;
  };
  std::vector<Basis> based_on;
  std::vector<NodeRefusal> refused;  ///< every node that could not take it alone
  Removed removed{};                 ///< devices, by cause
  unsigned would_do = 0;             ///< devices that nothing speaks against

  [[nodiscard]] bool is_placed() const { return !parts.empty(); }
};

/// Deterministic: the same view and request have the same decision. The request and the options
/// have passed check().
Decision place(const View& view, const Request& request, const PlacementOptions& options);

/// Err(kExhausted) names a node that has changed since the decision.
Status check_basis(const Snapshot& snapshot, const Decision& decision);

/// Of a request that found no place: "needs 10 GiB, largest free 6 GiB on node-3; of 24 devices 16
/// lack memory, 8 model".
std::string why_not(const Snapshot& snapshot, const Request& request, const Decision& decision);

// ---- what place() is made of
/// The best group of that many on the node; `fit` has as many.
std::vector<Place> pick_on_node(const Snapshot& snapshot, const NodeFit& fit, std::size_t count,
                                const Request& request, const PlacementOptions& options);
/// Over as few nodes as possible, in one rack if one is enough. Empty: there are too few devices.
std::vector<Place> pick_over_nodes(const Snapshot& snapshot, const std::vector<NodeFit>& fits,
                                   const Request& request, const PlacementOptions& options);

}  // namespace sluice::pool
