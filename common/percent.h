// Parts of a whole as people write them: "30%", "12.5%".
#pragma once

#include "common/result.h"

#include <string>
#include <string_view>

namespace sluice {

/// A fraction from 0 to 1. Err(kInvalidArgument) says what is accepted.
Result<double> parse_percent(std::string_view text);
/// "30%", "12.5%"; at most three decimals.
std::string percent_text(double fraction);

}  // namespace sluice
