// What is kept for a job is lent to others only if they will have ended by then (EASY
// back-filling).
#include "scheduler/pool/placement/filter.h"

namespace sluice::pool {

Objection filter_reserved(const View& view, const Place& place, const Request& /*request*/) {
  if (view.reservations.is_empty()) return {};
  const Reservations::Entry* const kept = view.reservations.find(place.at);
  if (kept == nullptr || kept->job == view.job) return {};
  if (kept->free_at && view.ends_by && *view.ends_by <= *kept->free_at) return {};
  return Refusal{.cause = Cause::kReserved, .found = static_cast<std::int64_t>(kept->job)};
}

}  // namespace sluice::pool
