// Calls that have company: a bulk copy, another thread; and calls that should wait for nobody.
#pragma once

#include "figure.h"

#include <string>
#include <vector>

namespace sluice::bench {

struct CompanyOptions {
  std::size_t rounds = 1'000;
  std::size_t launches = 50'000;
  std::size_t copy_mib = 64;
  unsigned repeats = 3;
};

/// Loads the client library, which finds the server in the environment. Ends the process with a
/// message when a call fails.
std::vector<Figure> measure_company(const std::string& library, const CompanyOptions& options);

}  // namespace sluice::bench
