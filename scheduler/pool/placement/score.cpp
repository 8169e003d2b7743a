#include "scheduler/pool/placement/score.h"

#include "common/format.h"

namespace sluice::pool {

Status check(const PlacementOptions& options) {
  const Weights& w = options.weights;
  const std::array<std::pair<std::string_view, double>, kScoreCount> kNamed = {
      {{"pack", w.pack},
       {"spread", w.spread},
       {"whole_nodes", w.whole_nodes},
       {"path", w.path},
       {"topology", w.topology},
       {"fragmentation", w.fragmentation}}};
  for (const auto& [name, weight] : kNamed)
    if (!(weight >= 0 && weight <= kScoreWeightMax))
      return fail(ErrorCode::kInvalidArgument,
                  format("the weight {} of {} is not from 0 to {}", weight, name, kScoreWeightMax));
  double parts = 0;
  for (const TypicalSize& typical : options.typical) {
    if (!(typical.part >= 0) || typical.size.compute_permille < 0 || typical.size.memory_bytes < 0)
      return fail(ErrorCode::kInvalidArgument, "a typical size is less than nothing");
    parts += typical.part;
  }
  if (parts > 1 + 1e-9)
    return fail(ErrorCode::kInvalidArgument,
                format("the typical sizes are {} of all requests together: at most 1", parts));
  return {};
}

Resources size_of(const Snapshot& snapshot, const Place& place) {
  const Device& device = snapshot.device(place.at);
  return place.instance ? device.instances[*place.instance].size : device.size();
}

Resources free_of(const Snapshot& snapshot, const Place& place) {
  return place.instance ? snapshot.free(place.at, *place.instance) : snapshot.free(place.at);
}

Resources reserved_at(const Snapshot& snapshot, const Place& place, const Request& request) {
  const Resources size = size_of(snapshot, place);
  const bool is_alone =
      request.isolation == Isolation::kExclusive || request.isolation == Isolation::kInstance;
  return is_alone ? size : request.need(size.memory_bytes);
}

std::string_view score_name(Score score) {
  constexpr std::array<std::string_view, kScoreCount> kNames = {
      "pack", "spread", "whole nodes", "path", "topology", "fragmentation"};
  return kNames[static_cast<std::size_t>(score)];
}

double Scores::total() const {
  double sum = 0;
  double counted = 0;
  for (std::size_t i = 0; i < kScoreCount; ++i) {
    sum += weight[i] * value[i];
    counted += weight[i];
  }
  return counted > 0 ? sum / counted : 0;
}

void Scores::set(Score score, double of, double counts) {
  value[static_cast<std::size_t>(score)] = of;
  weight[static_cast<std::size_t>(score)] = counts;
}

void score_place(const Snapshot& snapshot, const Place& place, const Request& request,
                 const PlacementOptions& options, Scores* out) {
  const Weights& weights = options.weights;
  if (is_hurried(request.cls))
    out->set(Score::kSpread, score_spread(snapshot, place, request), weights.spread);
  else
    out->set(Score::kPack, score_pack(snapshot, place, request), weights.pack);
  const Origin& origin = request.origin;
  if (!origin.node.empty() || !origin.rail.empty() || !origin.rack.empty())
    out->set(Score::kPath, score_path(snapshot, place, request), weights.path);
  if (!options.typical.empty())
    out->set(Score::kFragmentation, score_fragmentation(snapshot, place, request, options.typical),
             weights.fragmentation);
}

Scores score_group(const Snapshot& snapshot, std::span<const Place> group, const Request& request,
                   const PlacementOptions& options) {
  Scores out;
  const auto count = static_cast<double>(group.size());
  for (const Place& place : group) {
    Scores one;
    score_place(snapshot, place, request, options, &one);
    for (std::size_t i = 0; i < kScoreCount; ++i) out.value[i] += one.value[i] / count;
    out.weight = one.weight;
  }
  out.set(Score::kWholeNodes, score_whole_nodes(snapshot, group, request),
          options.weights.whole_nodes);
  if (group.size() > 1)
    out.set(Score::kTopology, score_topology(snapshot, group), options.weights.topology);
  return out;
}

}  // namespace sluice::pool
