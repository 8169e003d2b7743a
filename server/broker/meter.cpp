#include "server/broker/meter.h"

#include <algorithm>

namespace sluice::server {
namespace {

using std::chrono::nanoseconds;
constexpr nanoseconds kHour = std::chrono::hours(1);

double seconds(nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

std::int64_t hour_of(nanoseconds wall) {
  return wall / kHour;
}

}  // namespace

void Meter::add(std::int64_t hour, const Key& key, const store::Use& use) {
  fresh_[{hour, key}] += use;
  totals_[key] += use;
}

/// Up to now the level was held: divided at the full hours.
void Meter::advance(Now now, const Key& key, Account& account) {
  nanoseconds left = std::max(now.steady - account.held_since, nanoseconds(0));
  account.held_since = now.steady;
  if (account.level == Level{}) return;
  for (nanoseconds end = now.wall; left.count() > 0;) {
    // The hour that ends with a full one is the one before it.
    const std::int64_t hour = hour_of(end - nanoseconds(1));
    const nanoseconds part = std::min(left, end - hour * kHour);
    const double s = seconds(part);
    const Level& level = account.level;
    add(hour, key,
        {0, level.reserved_gpus * s, level.memory_bytes * s, level.reserved_memory_bytes * s});
    left -= part;
    end -= part;
  }
}

void Meter::hold(Now now, const Key& key, const Level& level) {
  const auto [found, is_new] = accounts_.try_emplace(key);
  Account& account = found->second;
  if (is_new) account.held_since = now.steady;
  if (account.level == level) return;
  advance(now, key, account);
  account.level = level;
}

void Meter::compute(Now now, const Key& key, nanoseconds sum) {
  Account& account = accounts_.try_emplace(key, Account{{}, now.steady, {}}).first->second;
  if (sum <= account.computed) return;
  add(hour_of(now.wall), key, {seconds(sum - account.computed), 0, 0, 0});
  account.computed = sum;
}

void Meter::advance_all(Now now) {
  for (auto& [key, account] : accounts_) advance(now, key, account);
}

std::vector<store::UsageRow> Meter::take(Now now) {
  advance_all(now);
  std::vector<store::UsageRow> out;
  for (const auto& [key, use] : fresh_) out.push_back({key.first, key.second, use});
  fresh_.clear();
  return out;
}

const std::map<Meter::Key, store::Use>& Meter::totals(Now now) {
  advance_all(now);
  return totals_;
}

}  // namespace sluice::server
