// Who wants to be alone is alone, and nobody joins whoever is.
#include "scheduler/pool/placement/filter.h"

namespace sluice::pool {

Objection filter_isolation(const View& view, const Place& place, const Request& request) {
  const DeviceUse& use = view.snapshot.use(place.at);
  for (const Holder& holder : (place.instance ? use.instances[*place.instance] : use.whole).holders)
    if (!may_share(holder.isolation, request.isolation, holder.tenant == request.tenant))
      return Refusal{.cause = Cause::kIsolation,
                     .what = may_share(request.isolation, Isolation::kShared, false)
                                 ? "has only devices whose tenants want to be alone"
                                 : "has no device without other tenants"};
  return {};
}

}  // namespace sluice::pool
