// Fill what is in use before anything else is touched: whole devices stay free.
#include "scheduler/pool/placement/score.h"

#include <algorithm>

namespace sluice::pool {

double score_pack(const Snapshot& snapshot, const Place& place, const Request& request) {
  const Resources size = size_of(snapshot, place);
  const Resources left = free_of(snapshot, place) - reserved_at(snapshot, place, request);
  double used = 0;
  for (const Resource resource : kResources)
    if (size[resource] > 0)
      used = std::max(
          used, 1 - static_cast<double>(left[resource]) / static_cast<double>(size[resource]));
  return used;
}

}  // namespace sluice::pool
