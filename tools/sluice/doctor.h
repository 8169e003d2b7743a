// `sluice doctor`: everything that `sluice run` checks, one line each, without running anything.
#pragma once

#include "tools/sluice/settings.h"

namespace sluice::tool {

/// 0 if all is well, else the exit status that `sluice run` would end with.
int doctor(Settings settings);

}  // namespace sluice::tool
