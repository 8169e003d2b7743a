#include "scheduler/pool/placement/placement.h"

#include "common/format.h"

#include <algorithm>
#include <numeric>

namespace sluice::pool {
namespace {

/// The best node for all of it; empty: none has enough devices.
std::vector<Place> pick_one_node(const Snapshot& snapshot, const std::vector<NodeFit>& fits,
                                 const Request& request, const PlacementOptions& options) {
  std::vector<Place> best;
  double best_score = -1;
  for (const NodeFit& fit : fits) {
    if (fit.candidates.size() < request.gpus) continue;
    std::vector<Place> group = pick_on_node(snapshot, fit, request.gpus, request, options);
    const double score = score_group(snapshot, group, request, options).total();
    if (score <= best_score) continue;  // among equals the first node
    best_score = score;
    best = std::move(group);
  }
  return best;
}

/// The places of each node in turn are a group.
Scores score_groups(const Snapshot& snapshot, const std::vector<Place>& places,
                    const Request& request, const PlacementOptions& options) {
  Scores out;
  for (std::size_t from = 0; from < places.size();) {
    std::size_t to = from;
    while (to < places.size() && places[to].at.node == places[from].at.node) ++to;
    const Scores one =
        score_group(snapshot, std::span(places).subspan(from, to - from), request, options);
    const double part = static_cast<double>(to - from) / static_cast<double>(places.size());
    for (std::size_t i = 0; i < kScoreCount; ++i) {
      out.value[i] += part * one.value[i];
      out.weight[i] = std::max(out.weight[i], one.weight[i]);
    }
    from = to;
  }
  return out;
}

void write_down(const Snapshot& snapshot, const std::vector<Place>& places, const Request& request,
                Decision* out) {
  for (const Place& place : places) {
    out->parts.push_back({.place = place.at,
                          .instance = place.instance,
                          .reserved = reserved_at(snapshot, place, request)});
    if (out->based_on.empty() || out->based_on.back().node != place.at.node)
      out->based_on.push_back({.node = place.at.node, .version = snapshot.version(place.at.node)});
  }
}

}  // namespace

Decision place(const View& view, const Request& request, const PlacementOptions& options) {
  const Snapshot& snapshot = view.snapshot;
  Decision out;
  std::vector<NodeFit> fits;
  fits.reserve(snapshot.nodes().size());
  for (std::size_t node = 0; node < snapshot.nodes().size(); ++node) {
    NodeFit fit = fit_node(view, node, request, options, &out.removed);
    const std::size_t found = fit.candidates.size();
    out.would_do += static_cast<unsigned>(found);
    if (found == 0 && fit.nearest) {
      out.refused.push_back({.node = node, .why = std::move(*fit.nearest)});
    } else if (found < request.gpus) {
      out.refused.push_back({.node = node,
                             .why = {.cause = Cause::kDevices,
                                     .wanted = request.gpus,
                                     .found = static_cast<std::int64_t>(found),
                                     .what = {}}});
    }
    fits.push_back(std::move(fit));
  }
  std::vector<Place> places = pick_one_node(snapshot, fits, request, options);
  if (places.empty() && request.may_span)
    places = pick_over_nodes(snapshot, fits, request, options);
  if (places.empty()) return out;
  out.scores = score_groups(snapshot, places, request, options);
  write_down(snapshot, places, request, &out);
  return out;
}

Status check_basis(const Snapshot& snapshot, const Decision& decision) {
  for (const Decision::Basis& basis : decision.based_on)
    if (snapshot.version(basis.node) != basis.version)
      return fail(ErrorCode::kExhausted, format("node {} has changed since the placement: decide "
                                                "again",
                                                snapshot.node(basis.node).name));
  return {};
}

std::string why_not(const Snapshot& snapshot, const Request& request, const Decision& decision) {
  const auto nearest = std::max_element(
      decision.refused.begin(), decision.refused.end(),
      [](const NodeRefusal& a, const NodeRefusal& b) { return is_nearer(b.why, a.why); });
  if (nearest == decision.refused.end()) return "the pool has no nodes";
  const std::string& name = snapshot.node(nearest->node).name;
  const Refusal& why = nearest->why;
  const bool is_amount = why.cause >= Cause::kCompute;
  std::string out = is_amount ? format("{} on {}", refusal_text(why), name)
                              : format("{} {}", name, refusal_text(why));
  if (request.may_span && decision.would_do > 0)
    out = format("needs {} devices, {} would do on all nodes together", request.gpus,
                 decision.would_do);
  const unsigned total =
      std::accumulate(decision.removed.begin(), decision.removed.end(), decision.would_do);
  std::string counts;
  for (std::size_t i = kCauseCount; i-- > 0;)
    if (decision.removed[i] > 0)
      counts += format("{}{} {}", counts.empty() ? "" : ", ", decision.removed[i],
                       cause_name(static_cast<Cause>(i)));
  if (decision.would_do > 0)
    counts = format("{} would do{}{}", decision.would_do, counts.empty() ? "" : ", ", counts);
  return format("{}; of {} devices: {}", out, total, counts);
}

}  // namespace sluice::pool
