// The little JSON that the client libraries write, without a library for it.
#pragma once

#include <string>

namespace sluice::shim {

/// As a JSON string, with its quotation marks.
std::string quoted(const std::string& text);

}  // namespace sluice::shim
