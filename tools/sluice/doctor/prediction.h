// What Sluice will add to a program's own time, from what was measured.
#pragma once

#include "tools/sluice/doctor/measure.h"

#include <nlohmann/json.hpp>

#include <optional>
#include <string>

namespace sluice::tool {

/// Nothing: it was not measured.
struct Prediction {
  std::optional<double> launch_us;            ///< of the program's time, for each launch
  std::optional<double> launch_sustained_us;  ///< between launches, if there are many of them
  std::optional<double> synchronize_us;       ///< for each wait, besides the work waited for
  std::optional<double> to_device_ms_per_gb, to_host_ms_per_gb;
};

Prediction predict(const Measured& measured);
nlohmann::json to_json(const Prediction& prediction, const Measured& measured);
/// One line for each, with what it was derived from; empty if nothing is known.
std::string text_of(const Prediction& prediction, const Measured& measured);

}  // namespace sluice::tool
