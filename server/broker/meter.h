// Adds up what tenants have of the devices: GPU time as it is charged, memory and reservations over
// the time that they are held, by hour of the clock on the wall. Durations are those of the steady
// clock: a wall clock that is set moves time to another hour, it neither makes nor loses any.
// Pure; the caller brings the clocks. Confined to one thread.
#pragma once

#include "server/store/usage.h"

#include <chrono>
#include <cstdint>
#include <map>
#include <vector>

namespace sluice::server {

class Meter {
 public:
  struct Now {
    std::chrono::nanoseconds steady, wall;  ///< since any moment; since 1970
  };
  /// What a tenant has of a device at some time.
  struct Level {
    double memory_bytes = 0, reserved_memory_bytes = 0;
    double reserved_gpus = 0;  ///< the guaranteed fraction

    bool operator==(const Level&) const = default;
  };
  using Key = store::UseKey;

  /// What there was before.
  explicit Meter(std::map<Key, store::Use> totals = {}) : totals_(std::move(totals)) {}

  /// From now on; until now it was what it was set to last.
  void hold(Now now, const Key& key, const Level& level);
  /// So much GPU time it has had, as a sum that only grows from 0 on. A smaller one changes
  /// nothing.
  void compute(Now now, const Key& key, std::chrono::nanoseconds sum);
  /// What was added since the last time.
  std::vector<store::UsageRow> take(Now now);
  /// Since ever, up to now.
  const std::map<Key, store::Use>& totals(Now now);

 private:
  struct Account {
    Level level;
    std::chrono::nanoseconds held_since{0}, computed{0};
  };
  void advance(Now now, const Key& key, Account& account);
  void advance_all(Now now);
  void add(std::int64_t hour, const Key& key, const store::Use& use);

  std::map<Key, Account> accounts_;
  std::map<Key, store::Use> totals_;
  std::map<std::pair<std::int64_t, Key>, store::Use> fresh_;
};

}  // namespace sluice::server
