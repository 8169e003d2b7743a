// One realtime lease on a device: a class that goes before all others can be promised once only.
#include "scheduler/pool/placement/filter.h"

namespace sluice::pool {

Objection filter_class(const View& view, const Place& place, const Request& request) {
  if (request.cls != Class::kRealtime) return {};
  for (const Holder& holder : view.snapshot.use(place.at).whole.holders)
    if (holder.cls == Class::kRealtime)
      return Refusal{.cause = Cause::kClass, .what = "has a realtime lease on every device"};
  return {};
}

}  // namespace sluice::pool
