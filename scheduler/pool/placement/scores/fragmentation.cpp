// What a placement leaves behind. Free room is lost in so far as the requests that usually come
// cannot use it; the loss that a placement adds is what counts (the idea is "fragmentation gradient
// descent", Weng et al., USENIX ATC 2023).
#include "scheduler/pool/placement/score.h"

namespace sluice::pool {
namespace {

/// The part of the device that is free, and useless to typical requests.
double lost(const Resources& free, const Resources& size, std::span<const TypicalSize> typical) {
  double room = 0;
  for (const Resource resource : kResources)
    if (size[resource] > 0)
      room += static_cast<double>(free[resource]) / static_cast<double>(size[resource]) /
              static_cast<double>(kResourceCount);
  double part = 0;
  for (const TypicalSize& one : typical)
    if (!one.size.fits_in(free)) part += one.part;
  return room * part;
}

}  // namespace

double score_fragmentation(const Snapshot& snapshot, const Place& place, const Request& request,
                           std::span<const TypicalSize> typical) {
  const Resources size = size_of(snapshot, place);
  const Resources free = free_of(snapshot, place);
  const Resources left = free - reserved_at(snapshot, place, request);
  return (1 - (lost(left, size, typical) - lost(free, size, typical))) / 2;
}

}  // namespace sluice::pool
