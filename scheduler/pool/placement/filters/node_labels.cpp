// The node has every label that the request names.
#include "scheduler/pool/placement/filter.h"

namespace sluice::pool {

Objection filter_node_labels(const View& view, std::size_t node, const Request& request) {
  const Labels& labels = view.snapshot.node(node).labels;
  for (const auto& [key, value] : request.node_labels) {
    const auto found = labels.find(key);
    if (found == labels.end() || found->second != value)
      return Refusal{.cause = Cause::kNodeLabel, .what = key + "=" + value};
  }
  return {};
}

}  // namespace sluice::pool
