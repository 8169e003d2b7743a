// Which transport carries a session, and why each of the others does not.
#pragma once

#include "tools/sluice/doctor/measure.h"
#include "tools/sluice/probe.h"
#include "tools/sluice/settings.h"

#include <string>
#include <vector>

namespace sluice::tool {

struct Verdict {
  std::string transport;
  bool is_used = false;
  std::string why;  ///< it is, or is not
};

/// `used` is what the session says.
std::vector<Verdict> judge_transports(const Settings& settings, const Reached& reached,
                                      const Measured& measured, const std::string& used);
/// Why the session is encrypted, or is not.
std::string why_encrypted(const Settings& settings, const Reached& reached);

}  // namespace sluice::tool
