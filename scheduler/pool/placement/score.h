// Scores say which of the places that would do is best: each from 0 to 1, more is better. One file
// each in scores/; pure functions. How much each counts is configured.
#pragma once

#include "scheduler/pool/placement/filter.h"

#include <array>
#include <span>
#include <string_view>
#include <vector>

namespace sluice::pool {

/// A size that is often asked for, and how often: its part of all requests.
struct TypicalSize {
  Resources size;
  double part = 0;
};

/// What each score counts against the others; 0 switches it off.
struct Weights {
  double pack = 1;           ///< for classes that share: fill devices that are in use
  double spread = 1;         ///< for classes that hurry: devices with least on them
  double whole_nodes = 0.5;  ///< leave nodes unused for requests of many GPUs; latency: use them
  double path = 1;           ///< near the client
  double topology = 1;       ///< GPUs of one request near each other
  double fragmentation = 1;  ///< leave what typical requests can use
};
inline constexpr double kScoreWeightMax = 1000;

struct PlacementOptions {
  Weights weights;
  std::vector<TypicalSize> typical;  ///< empty: fragmentation does not count
};
/// Err(kInvalidArgument) names the value and what would be accepted.
Status check(const PlacementOptions& options);

/// Latency classes are spread, the others packed.
constexpr bool is_hurried(Class cls) {
  return cls >= Class::kInteractive;
}
/// What the lease will hold there: all of what it is alone on.
Resources reserved_at(const Snapshot& snapshot, const Place& place, const Request& request);
/// The place as a whole, and what is free of it.
Resources size_of(const Snapshot& snapshot, const Place& place);
Resources free_of(const Snapshot& snapshot, const Place& place);

/// How full the place will be, by what is scarcest.
double score_pack(const Snapshot& snapshot, const Place& place, const Request& request);
/// How much of the device's compute will be left, with how few neighbours.
double score_spread(const Snapshot& snapshot, const Place& place, const Request& request);
/// 1 on the client's node (shared memory), less on its rail, less in its rack, else 0.
double score_path(const Snapshot& snapshot, const Place& place, const Request& request);
/// Whether typical requests can use what will be left better or worse than what is there now.
double score_fragmentation(const Snapshot& snapshot, const Place& place, const Request& request,
                           std::span<const TypicalSize> typical);
/// How many of the node's devices will be in use.
double score_whole_nodes(const Snapshot& snapshot, std::span<const Place> group,
                         const Request& request);
/// The part of the group that is on one NUMA node and one rail.
double score_topology(const Snapshot& snapshot, std::span<const Place> group);

/// The scores by themselves, for an explanation.
enum class Score : std::uint8_t { kPack, kSpread, kWholeNodes, kPath, kTopology, kFragmentation };
inline constexpr std::size_t kScoreCount = 6;
std::string_view score_name(Score score);
struct Scores {
  std::array<double, kScoreCount> value{}, weight{};
  /// Their weighted mean; 0 if nothing counts.
  [[nodiscard]] double total() const;
  void set(Score score, double of, double counts);
};

/// Of one place by itself; `out` gets what concerns it.
void score_place(const Snapshot& snapshot, const Place& place, const Request& request,
                 const PlacementOptions& options, Scores* out);
/// Of a group on one node: what concerns the group, and the mean of the places'.
Scores score_group(const Snapshot& snapshot, std::span<const Place> group, const Request& request,
                   const PlacementOptions& options);

}  // namespace sluice::pool
