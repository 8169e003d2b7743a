// A taint keeps off whoever does not say that it tolerates it.
#include "scheduler/pool/placement/filter.h"

#include <algorithm>

namespace sluice::pool {

Objection filter_taints(const View& view, std::size_t node, const Request& request) {
  for (const Taint& taint : view.snapshot.node(node).taints) {
    const bool is_tolerated = std::any_of(
        request.tolerations.begin(), request.tolerations.end(), [&](const Toleration& tolerated) {
          return tolerated.key == taint.key &&
                 (!tolerated.value || *tolerated.value == taint.value);
        });
    if (!is_tolerated)
      return Refusal{.cause = Cause::kTaint, .what = taint.key + "=" + taint.value};
  }
  return {};
}

}  // namespace sluice::pool
