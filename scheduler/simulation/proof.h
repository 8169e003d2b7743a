// What the division of a device's time promises (docs/slices.md), measured: each promise by a mix
// of tenants in virtual time, once under a policy and once with nobody deciding. A promise that
// holds without a policy proves nothing; the second column shows it.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::scheduler::simulation {

struct Promise {
  std::string name, unit;
  double bound = 0;
  bool is_least = false;  ///< the figure must not be below the bound; else not above it
  /// Runs the mix under a policy, or kNative.
  std::function<double(std::string_view policy)> measure;

  [[nodiscard]] bool is_kept(double figure) const {
    return is_least ? figure >= bound : figure <= bound;
  }
};

/// Of the default policy, fair-share. Each takes up to some seconds of a processor's time.
std::vector<Promise> promises();

}  // namespace sluice::scheduler::simulation
