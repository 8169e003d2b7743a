// `sluice run`: a program with the shim in it.
#pragma once

#include "tools/sluice/settings.h"

namespace sluice::tool {

/// The exit status of the program, or one of exit_codes.h after a message on stderr.
int run(Settings settings);

}  // namespace sluice::tool
