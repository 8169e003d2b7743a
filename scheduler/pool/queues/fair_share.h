// How one resource is divided among siblings. First everybody gets what is guaranteed, as far as it
// is wanted; what is left goes by priority, and within a priority by weight, less for those who
// have had much lately. The formula is that of KAI-Scheduler (Apache-2.0; its
// docs/time-based-fairshare).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace sluice::pool {

struct Claim {
  std::int64_t guarantee = 0;
  std::int64_t wanted = 0;  ///< what it has and what waits, within its limit
  double weight = 1;
  int priority = 0;
  double usage = 0;  ///< of the capacity, lately: 0 to 1
};

/// What each may have; together at most `capacity`, and less only if no more is wanted. `history`
/// is KAI's k: a claim's part of what is left is max(0, w + k (w - u)), with w the weights' parts
/// and u the usage. What does not come out in whole `unit`s goes to the largest remainders, among
/// equals to the first.
std::vector<std::int64_t> divide(std::int64_t capacity, std::span<const Claim> claims,
                                 double history, std::int64_t unit);

}  // namespace sluice::pool
