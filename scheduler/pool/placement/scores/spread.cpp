// Who hurries waits for neighbours: few of them, and much compute that is not promised to anybody.
#include "scheduler/pool/placement/score.h"

namespace sluice::pool {

double score_spread(const Snapshot& snapshot, const Place& place, const Request& request) {
  const Resources left = free_of(snapshot, place) - reserved_at(snapshot, place, request);
  const auto size = static_cast<double>(size_of(snapshot, place).compute_permille);
  const double unpromised = size > 0 ? static_cast<double>(left.compute_permille) / size : 0;
  const DeviceUse& use = snapshot.use(place.at);
  const Use& mine = place.instance ? use.instances[*place.instance] : use.whole;
  const double alone = 1.0 / static_cast<double>(1 + mine.holders.size());
  return (unpromised + alone) / 2;
}

}  // namespace sluice::pool
