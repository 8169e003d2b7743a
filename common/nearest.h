// "Did you mean ...?": the known name that a mistyped one most likely stands for.
#pragma once

#include <span>
#include <string_view>

namespace sluice {

/// Empty if nothing is close enough (more than a third of the letters differ).
std::string_view nearest(std::string_view name, std::span<const std::string_view> known);

}  // namespace sluice
