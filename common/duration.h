// Times as people write them in configuration files and options: "10m", "1h30m", "500ms".
#pragma once

#include "common/result.h"

#include <chrono>
#include <string>
#include <string_view>

namespace sluice {

/// Whole numbers with the units ms, s, m, h, d, largest first or not; "none" = 0, every other zero
/// is refused. Err(kInvalidArgument) says what is accepted; at most ten years.
Result<std::chrono::milliseconds> parse_duration(std::string_view text);

/// "1h30m", "500ms"; "none" for 0. parse_duration reads it back.
std::string duration_text(std::chrono::milliseconds time);

}  // namespace sluice
