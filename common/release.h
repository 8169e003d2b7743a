// The release that this was built from, for people and for comparing two sides.
#pragma once

namespace sluice {

inline constexpr const char* kRelease = "0.1.0";

}  // namespace sluice
