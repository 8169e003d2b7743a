// Enough compute and memory is free.
#include "scheduler/pool/placement/filter.h"

namespace sluice::pool {

Objection filter_capacity(const View& view, const Place& place, const Request& request) {
  const Snapshot& snapshot = view.snapshot;
  const Resources whole = place.instance ? snapshot.device(place.at).instances[*place.instance].size
                                         : snapshot.device(place.at).size();
  const Resources free =
      place.instance ? snapshot.free(place.at, *place.instance) : snapshot.free(place.at);
  const Resources need = request.need(whole.memory_bytes);
  if (need.compute_permille > free.compute_permille)
    return Refusal{
        .cause = Cause::kCompute, .wanted = need.compute_permille, .found = free.compute_permille};
  if (need.memory_bytes > free.memory_bytes)
    return Refusal{
        .cause = Cause::kMemory, .wanted = need.memory_bytes, .found = free.memory_bytes};
  return {};
}

}  // namespace sluice::pool
