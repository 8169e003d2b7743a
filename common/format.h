// sluice::format: fmt's syntax, compiled into us so that the application's own fmt is never
// touched.
#pragma once

#include <fmt/core.h>

#include <string>
#include <utility>

namespace sluice {

std::string vformat(fmt::string_view text, fmt::format_args args);

template <class... Args>
std::string format(fmt::format_string<Args...> text, Args&&... args) {
  return ::sluice::vformat(text, fmt::make_format_args(args...));
}

}  // namespace sluice
