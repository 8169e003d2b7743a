#include "scheduler/pool/placement/filter.h"

#include <array>

namespace sluice::pool {

std::span<const NodeFilter> node_filters() {
  static constexpr std::array<NodeFilter, 4> kFilters = {filter_cordon, filter_taints,
                                                         filter_node_labels, filter_affinity};
  return kFilters;
}

std::span<const DeviceFilter> device_filters() {
  static constexpr std::array<DeviceFilter, 5> kFilters = {
      filter_fitness, filter_reserved, filter_isolation, filter_class, filter_capacity};
  return kFilters;
}

Objection refuse_node(const View& view, std::size_t node, const Request& request) {
  for (const NodeFilter filter : node_filters())
    if (Objection objection = filter(view, node, request)) return objection;
  return {};
}

Objection refuse_device(const View& view, const Place& place, const Request& request) {
  for (const DeviceFilter filter : device_filters())
    if (Objection objection = filter(view, place, request)) return objection;
  return {};
}

}  // namespace sluice::pool
