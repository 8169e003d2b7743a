// Runs a program of this folder on the recording driver and hands back what it did.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace sluice::test {

struct Outcome {
  int status = -1;                  ///< exit status, or 128 + signal
  std::string output;               ///< stdout and stderr
  std::vector<std::string> driver;  ///< the driver's record, one call a line

  /// Calls whose line starts with `prefix`.
  std::vector<std::string> calls(const std::string& prefix) const;
};

Outcome run(const std::string& program, const std::vector<std::string>& args,
            std::map<std::string, std::string> environment);

}  // namespace sluice::test
