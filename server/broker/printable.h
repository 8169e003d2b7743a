// What a client says about itself goes into logs, messages and tables: one short line each.
#pragma once

#include <string>
#include <string_view>

namespace sluice::server {

inline constexpr std::size_t kPrintableBytesMax = 256;

/// `text` as valid UTF-8 without control characters: what is neither becomes '?'; cut off at
/// kPrintableBytesMax.
std::string printable(std::string_view text);

}  // namespace sluice::server
