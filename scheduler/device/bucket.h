// A token bucket of device time: what holds a tenant under its limit.
#pragma once

#include "scheduler/device/share.h"

namespace sluice::scheduler {

/// Confined to one thread.
class Bucket {
 public:
  /// May run while it is not in debt.
  [[nodiscard]] bool is_open() const { return level_ns_ >= 0; }
  /// Fills with `rate` (a fraction of the time that passed), up to what `kDepth` brings. A rate of
  /// 1 or more is no limit: the bucket is then always full.
  void refill(Time now, double rate);
  void take(Duration cost) { level_ns_ -= static_cast<double>(cost.count()); }
  /// No deeper in debt than `debt`: a command whose cost was mismeasured must not lock anybody out
  /// for ever.
  void bound_debt(Duration debt);
  /// When it will be open again at that rate; `now` if it is.
  [[nodiscard]] Time opens_at(Time now, double rate) const;

  /// The longest burst at the full rate.
  static constexpr Duration kDepth = std::chrono::milliseconds(100);

 private:
  double level_ns_ = 0;
  Time filled_at_{};
  bool is_new_ = true;
};

}  // namespace sluice::scheduler
