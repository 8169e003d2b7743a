// One measured figure beside the raw limit of the same run.
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

namespace sluice::bench {

struct Figure {
  std::string name, unit;
  double value = 0;
  std::string raw_name;
  double raw = 0;
  /// value / raw; for times smaller is better, for rates larger.
  [[nodiscard]] double ratio() const { return raw > 0 ? value / raw : 0; }
};

inline double quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(q * static_cast<double>(values.size() - 1))];
}

/// Measures both in turn, so that a busy machine troubles both, and takes the medians.
inline Figure compare(std::string name, std::string unit, std::string raw_name, unsigned repeats,
                      const std::function<double()>& ours, const std::function<double()>& raw) {
  std::vector<double> a, b;
  for (unsigned i = 0; i < repeats; ++i) {
    b.push_back(raw());
    a.push_back(ours());
  }
  return {std::move(name), std::move(unit), quantile(a, 0.5), std::move(raw_name),
          quantile(b, 0.5)};
}

}  // namespace sluice::bench
