// Filters say what cannot be taken, and why. One file each in filters/; pure functions of the
// snapshot and the request. Node filters are asked first, so that a device is only looked at where
// it could be taken.
#pragma once

#include "scheduler/pool/model/snapshot.h"
#include "scheduler/pool/placement/refusal.h"
#include "scheduler/pool/placement/reservation.h"

#include <span>

namespace sluice::pool {

/// What a placement looks at. Borrowed for the call.
struct View {
  const Snapshot& snapshot;
  const Reservations& reservations;
  JobId job = 0;  ///< who asks: what is reserved for it is not kept from it
  /// When the job will have ended at the latest, if that is known: it may then use what is reserved
  /// for later.
  std::optional<Time> ends_by;
};

using NodeFilter = Objection (*)(const View&, std::size_t node, const Request&);

/// A device, or an instance of it.
struct Place {
  DevicePlace at;
  std::optional<std::uint32_t> instance;
};
using DeviceFilter = Objection (*)(const View&, const Place&, const Request&);

// In the order of Cause.
Objection filter_cordon(const View& view, std::size_t node, const Request& request);
Objection filter_taints(const View& view, std::size_t node, const Request& request);
Objection filter_node_labels(const View& view, std::size_t node, const Request& request);
Objection filter_affinity(const View& view, std::size_t node, const Request& request);

/// What a device is, which does not change with what runs on it.
Objection filter_fitness(const View& view, const Place& place, const Request& request);
Objection filter_reserved(const View& view, const Place& place, const Request& request);
Objection filter_isolation(const View& view, const Place& place, const Request& request);
Objection filter_class(const View& view, const Place& place, const Request& request);
Objection filter_capacity(const View& view, const Place& place, const Request& request);

std::span<const NodeFilter> node_filters();
std::span<const DeviceFilter> device_filters();

/// The first objection of any.
Objection refuse_node(const View& view, std::size_t node, const Request& request);
Objection refuse_device(const View& view, const Place& place, const Request& request);

}  // namespace sluice::pool
