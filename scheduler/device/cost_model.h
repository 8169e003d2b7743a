// What a command will probably cost, from what the same one cost before. A key stands for the
// function and the shape of its launch (or for a graph); whoever measures makes it.
#pragma once

#include "scheduler/device/share.h"

#include <cstdint>
#include <list>
#include <optional>
#include <unordered_map>

namespace sluice::scheduler {

/// Confined to one thread. Bounded: the keys that were not used for longest are forgotten.
class CostModel {
 public:
  static constexpr std::size_t kKeysMax = 16'384;

  explicit CostModel(std::size_t keys_max = kKeysMax) : keys_max_(keys_max) {}

  /// Nothing: it was never seen, or too long ago.
  [[nodiscard]] std::optional<Duration> estimate(std::uint64_t key) const;
  void learn(std::uint64_t key, Duration actual);
  /// What the key stands for has changed (a graph was updated).
  void forget(std::uint64_t key);
  [[nodiscard]] std::size_t size() const { return entries_.size(); }

  /// Blocks of a launch in steps of an eighth: launches of about the same size share what was
  /// learned, and a bigger one does not inherit a smaller one's cost.
  static std::uint64_t key_of(std::uint64_t function, std::uint64_t blocks,
                              std::uint32_t threads_per_block, std::uint32_t shared_bytes);

 private:
  struct Entry {
    double mean_ns = 0;
    std::uint32_t seen = 0;
    std::list<std::uint64_t>::iterator place;
  };
  std::size_t keys_max_;
  std::unordered_map<std::uint64_t, Entry> entries_;
  std::list<std::uint64_t> newest_first_;
};

}  // namespace sluice::scheduler
