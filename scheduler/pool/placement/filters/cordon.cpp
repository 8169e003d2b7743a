// Nothing new on a node that is cordoned or drained.
#include "scheduler/pool/placement/filter.h"

namespace sluice::pool {

Objection filter_cordon(const View& view, std::size_t node, const Request& /*request*/) {
  const Node& on = view.snapshot.node(node);
  if (on.is_cordoned) return Refusal{.cause = Cause::kCordoned};
  if (on.drained_until) return Refusal{.cause = Cause::kDraining};
  return {};
}

}  // namespace sluice::pool
