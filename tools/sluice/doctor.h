// `sluice doctor`: everything that `sluice run` checks, one line each, and with a server what a
// session with it is like and what that will cost a program. Runs no program.
#pragma once

#include "tools/sluice/settings.h"

#include <string>

namespace sluice::tool {

struct DoctorOptions {
  std::string output = "table";  ///< or "json"
  bool measures = true;          ///< false: makes no session
};

/// 0 if all is well, warnings included, else the exit status that `sluice run` would end with.
int doctor(Settings settings, const DoctorOptions& options);

}  // namespace sluice::tool
