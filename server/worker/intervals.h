// The length of a union of intervals that come in any order.
#pragma once

#include <algorithm>
#include <iterator>
#include <map>

namespace sluice::server {

class Intervals {
 public:
  /// How much [from, to) adds to what is covered.
  double add(double from, double to) {
    if (to <= from) return 0;
    double added = to - from;
    auto at = covered_.upper_bound(from);
    if (at != covered_.begin() && std::prev(at)->second >= from) --at;
    while (at != covered_.end() && at->first <= to) {
      added -= std::max(0.0, std::min(at->second, to) - std::max(at->first, from));
      // What was covered on both sides of it stays one piece.
      from = std::min(from, at->first);
      to = std::max(to, at->second);
      at = covered_.erase(at);
    }
    covered_.emplace(from, to);
    return added;
  }
  void clear() { covered_.clear(); }

 private:
  std::map<double, double> covered_;  ///< from -> to; they do not touch
};

}  // namespace sluice::server
