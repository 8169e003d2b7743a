// Devices that are kept for a job: the head of a queue that starves, or whoever others make room
// for. Placement keeps everybody else off them.
#pragma once

#include "scheduler/pool/model/lease.h"

#include <map>
#include <optional>
#include <vector>

namespace sluice::pool {

struct Reservation {
  JobId job = 0;
  std::vector<DevicePlace> places;
  /// When all of it will be free, if that is known. Who has ended by then is no hindrance.
  std::optional<Time> free_at;
};

/// By device, so that a filter finds them at once. A value.
class Reservations {
 public:
  struct Entry {
    JobId job;
    std::optional<Time> free_at;
  };

  /// A device is kept for one job only; false: one of them is kept for another, nothing is added.
  bool add(const Reservation& reservation);
  /// Null: it is kept for nobody.
  [[nodiscard]] const Entry* find(DevicePlace place) const;
  [[nodiscard]] bool is_empty() const { return by_place_.empty(); }

 private:
  std::map<DevicePlace, Entry> by_place_;
};

}  // namespace sluice::pool
