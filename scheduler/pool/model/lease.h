// A time-limited right of a tenant to parts of devices.
#pragma once

#include "scheduler/pool/model/request.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sluice::pool {

using LeaseId = std::uint64_t;

/// Where in the snapshot: places in its vectors. Nodes and devices keep their places as long as the
/// snapshot lives.
struct DevicePlace {
  std::uint32_t node = 0, device = 0;
  auto operator<=>(const DevicePlace&) const = default;
};

/// What a lease holds of one device.
struct Part {
  DevicePlace place;
  std::optional<std::uint32_t> instance;
  Resources reserved;
};

struct Lease {
  LeaseId id = 0;
  std::uint64_t version = 0;  ///< of the record; grows with each change
  JobId job = 0;
  std::string tenant, queue;
  Resources charged;  ///< to the queue
  Class cls = Class::kStandard;
  Isolation isolation = Isolation::kShared;
  Labels labels, anti_affinity;
  std::vector<Part> parts;

  int priority = 0;  ///< the job's
  Time since{};
  std::optional<Time> ends_by;  ///< it ends by then at the latest
  bool is_preemptible = true;
  bool is_ending = false;  ///< it was told to go
};

}  // namespace sluice::pool
