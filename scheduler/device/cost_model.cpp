#include "scheduler/device/cost_model.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace sluice::scheduler {
namespace {

/// The first runs count fully (a plain mean), later ones by this much: a cost that changes is
/// followed within some ten launches, one outlier moves it little.
constexpr double kLearningMin = 0.2;

/// Eight steps between two powers of two.
std::uint64_t step_of(std::uint64_t value) {
  if (value < 16) return value;
  const auto shift = static_cast<unsigned>(std::bit_width(value)) - 4;
  return (static_cast<std::uint64_t>(shift) << 8) + (value >> shift);
}

std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  hash = (hash ^ value) * 0x9E37'79B9'7F4A'7C15;
  return hash ^ (hash >> 29);
}

}  // namespace

std::optional<Duration> CostModel::estimate(std::uint64_t key) const {
  const auto found = entries_.find(key);
  if (found == entries_.end()) return std::nullopt;
  return Duration(static_cast<Duration::rep>(std::llround(found->second.mean_ns)));
}

void CostModel::learn(std::uint64_t key, Duration actual) {
  const auto [at, is_new] = entries_.try_emplace(key);
  Entry& entry = at->second;
  if (is_new) {
    newest_first_.push_front(key);
    entry.place = newest_first_.begin();
  } else {
    newest_first_.splice(newest_first_.begin(), newest_first_, entry.place);
  }
  const double weight = std::max(1.0 / (++entry.seen), kLearningMin);
  entry.mean_ns += weight * (static_cast<double>(actual.count()) - entry.mean_ns);
  if (entries_.size() > keys_max_) forget(newest_first_.back());
}

void CostModel::forget(std::uint64_t key) {
  const auto found = entries_.find(key);
  if (found == entries_.end()) return;
  newest_first_.erase(found->second.place);
  entries_.erase(found);
}

std::uint64_t CostModel::key_of(std::uint64_t function, std::uint64_t blocks,
                                std::uint32_t threads_per_block, std::uint32_t shared_bytes) {
  std::uint64_t hash = mix(0x5106, function);
  hash = mix(hash, step_of(blocks));
  hash = mix(hash, threads_per_block);
  return mix(hash, step_of(shared_bytes));
}

}  // namespace sluice::scheduler
