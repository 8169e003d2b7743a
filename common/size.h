// Sizes as people write them in configuration files and options: "64MiB", "2GB", "4096".
#pragma once

#include "common/result.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace sluice {

/// Bytes. Units: B, KiB, MiB, GiB, TiB (1024) and KB, MB, GB, TB (1000), case-insensitive, K/M/G/T
/// = KiB...; none = bytes. Err(kInvalidArgument) says what is accepted; 0 is accepted.
Result<std::uint64_t> parse_size(std::string_view text);

/// "64 MiB", "1.5 GiB"; at most one decimal.
std::string size_text(std::uint64_t bytes);

}  // namespace sluice
