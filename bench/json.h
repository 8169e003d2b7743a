// A figure on its way between two processes, or to a machine.
#pragma once

#include "figure.h"

#include <nlohmann/json.hpp>

namespace sluice::bench {

inline nlohmann::json to_json(const Figure& f) {
  return {{"name", f.name},         {"value", f.value}, {"unit", f.unit},
          {"raw_name", f.raw_name}, {"raw", f.raw},     {"ratio", f.ratio()}};
}

inline Figure from_json(const nlohmann::json& f) {
  return {f.at("name"), f.at("unit"), f.at("value"), f.at("raw_name"), f.at("raw")};
}

}  // namespace sluice::bench
