#include "scheduler/pool/placement/reservation.h"

#include <algorithm>

namespace sluice::pool {

bool Reservations::add(const Reservation& reservation) {
  const auto is_taken = [this](DevicePlace place) { return by_place_.contains(place); };
  if (std::any_of(reservation.places.begin(), reservation.places.end(), is_taken)) return false;
  for (const DevicePlace place : reservation.places)
    by_place_.emplace(place, Entry{.job = reservation.job, .free_at = reservation.free_at});
  return true;
}

const Reservations::Entry* Reservations::find(DevicePlace place) const {
  const auto found = by_place_.find(place);
  return found == by_place_.end() ? nullptr : &found->second;
}

}  // namespace sluice::pool
