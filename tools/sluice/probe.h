// Whether a server would let this user in, in words for people: what the program itself would only
// see as an error of cuInit.
#pragma once

#include "common/result.h"
#include "tools/sluice/settings.h"

#include <string>

namespace sluice::tool {

/// The server's name of itself. Makes no session. Errors name the server and the fix.
Result<std::string> probe(const Settings& settings);

}  // namespace sluice::tool
