// Commands between two requests for completion, and what they cost. Their time is measured as a
// whole, from one completion to the next, and divided among them by what was known before; so
// after a few rounds each function and shape has a cost of its own, without an event for each
// launch. From that follows how much is under way, in time.
//
// Pure: no driver, no thread, no clock.
#pragma once

#include "scheduler/device/cost_model.h"

#include <deque>
#include <vector>

namespace sluice::server {

class Bundles {
 public:
  using Duration = scheduler::Duration;
  using Time = scheduler::Time;

  /// A command that was never seen may cost this much; it is measured alone.
  static constexpr Duration kUnknown = std::chrono::microseconds(500);

  /// A command of this cost key (scheduler::CostModel::key_of) is issued now.
  void add(std::uint64_t key, Time now);
  /// The bundle that is being filled is to be closed before such a command joins it: it has that
  /// length, or that many commands, or one of the two was never seen.
  [[nodiscard]] bool is_full_for(std::uint64_t key, Duration length, std::size_t count_max) const;
  /// Closes the bundle that is being filled. False: it is empty.
  bool close();
  /// The oldest bundle that was closed and has not completed has completed now.
  void complete(Time now);

  /// What was added and has not completed.
  [[nodiscard]] std::size_t count() const { return count_; }
  /// Bundles that were closed and have not completed: a completion is to come.
  [[nodiscard]] std::size_t asked() const { return closed_.size(); }
  /// What is counted, in time, as far as it is known.
  [[nodiscard]] Duration under_way() const { return estimate_; }
  /// What such a command will cost.
  [[nodiscard]] Duration estimate(std::uint64_t key) const {
    return model_.estimate(key).value_or(kUnknown);
  }

 private:
  struct Bundle {
    std::vector<std::uint64_t> keys;
    Time since{0};         ///< its first command was issued
    Duration estimate{0};  ///< when they were issued
    bool has_unknown = false;
  };
  void learn(const Bundle& bundle, Duration actual);

  scheduler::CostModel model_;
  Bundle filling_;
  std::deque<Bundle> closed_;
  std::size_t count_ = 0;
  Duration estimate_{0};  ///< of all that is counted
  Time completed_at_{0};  ///< the last one
};

}  // namespace sluice::server
