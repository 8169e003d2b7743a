#include "scheduler/pool/placement/candidates.h"

#include <algorithm>

namespace sluice::pool {
namespace {

/// Of a device that is cut up, the smallest instance that would do: larger ones stay for those that
/// need them. Nothing: `nearest` says why.
std::optional<Place> place_on(const View& view, DevicePlace at, const Request& request,
                              Objection* nearest) {
  const auto is_refused = [&](const Place& place) {
    Objection objection = refuse_device(view, place, request);
    const bool refused = objection.has_value();
    if (refused && (!*nearest || is_nearer(*objection, **nearest))) *nearest = std::move(objection);
    return refused;
  };
  const std::vector<Instance>& instances = view.snapshot.device(at).instances;
  if (instances.empty()) {
    const Place whole{.at = at, .instance = {}};
    return is_refused(whole) ? std::nullopt : std::optional(whole);
  }
  std::optional<Place> best;
  const auto is_smaller = [&](std::uint32_t a, std::uint32_t b) {
    return std::pair(instances[a].size.memory_bytes, instances[a].size.compute_permille) <
           std::pair(instances[b].size.memory_bytes, instances[b].size.compute_permille);
  };
  for (std::uint32_t i = 0; i < instances.size(); ++i) {
    const Place place{.at = at, .instance = i};
    if (!is_refused(place) && (!best || is_smaller(i, *best->instance))) best = place;
  }
  return best;
}

}  // namespace

NodeFit fit_node(const View& view, std::size_t node, const Request& request,
                 const PlacementOptions& options, Removed* removed) {
  const auto devices = static_cast<std::uint32_t>(view.snapshot.node(node).devices.size());
  NodeFit out{.node = node, .candidates = {}, .nearest = refuse_node(view, node, request)};
  if (out.nearest) {
    (*removed)[static_cast<std::size_t>(out.nearest->cause)] += devices;
    return out;
  }
  for (std::uint32_t device = 0; device < devices; ++device) {
    const DevicePlace at{.node = static_cast<std::uint32_t>(node), .device = device};
    Objection why;
    if (const auto place = place_on(view, at, request, &why)) {
      Scores scores;
      score_place(view.snapshot, *place, request, options, &scores);
      out.candidates.push_back({.place = *place, .score = scores.total()});
    } else {
      ++(*removed)[static_cast<std::size_t>(why->cause)];
      if (!out.nearest || is_nearer(*why, *out.nearest)) out.nearest = std::move(why);
    }
  }
  // Stable: among equals the lower ordinal, so that the same question has the same answer.
  std::stable_sort(out.candidates.begin(), out.candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return a.score > b.score; });
  return out;
}

}  // namespace sluice::pool
