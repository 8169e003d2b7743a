// A session as a program has it, and what its calls take: the client library is loaded into a
// process of its own, which makes the calls and reports as it goes. Whatever hangs or fails takes
// only what comes after it.
#pragma once

#include "tools/sluice/doctor/findings.h"
#include "tools/sluice/doctor/path.h"
#include "tools/sluice/settings.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sluice::tool {

struct Trips {
  std::size_t count = 0;
  double min_us = 0, p50_us = 0, p99_us = 0;
};

struct Launches {
  std::size_t count = 0;
  std::string what;      ///< "launches", or what stood in for them
  double posted_us = 0;  ///< for each: until the last call had returned
  double done_us = 0;    ///< for each: until the server had done them all
};

struct CopyRate {
  bool is_to_device = true;
  std::uint64_t bytes = 0;
  std::size_t count = 0;
  double gb_per_s = 0;
};

struct Measured {
  nlohmann::json session;  ///< protocol/session_report.h
  std::string no_session;  ///< why there is none; empty: there is one
  std::optional<Trips> round_trip, synchronize;
  std::optional<Launches> launches;
  std::vector<CopyRate> copies;
  std::optional<Path> path;
  std::vector<std::string> not_measured;  ///< what, and why not
};

/// `library` is the client's libcuda.so.1.
Measured measure(const Settings& settings, const std::string& library, Progress& progress);

/// For JSON; null where nothing was measured.
nlohmann::json to_json(const std::optional<Trips>& trips);
nlohmann::json to_json(const std::optional<Launches>& launches);
nlohmann::json to_json(const CopyRate& rate);

/// In the process of its own: makes the calls, writes one JSON object a line to `report`. Keys:
/// "begin" (a step, for the progress), or a step's result. Ends the process.
[[noreturn]] void measure_here(const std::string& library, int report);

}  // namespace sluice::tool
