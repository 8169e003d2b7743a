// `sluicectl usage`: what tenants had of the devices, by tenant, GPU, month, day or hour.
#pragma once

#include "tools/sluicectl/commands.h"

#include <chrono>
#include <string>
#include <vector>

namespace sluice::tool {

struct UsageOptions {
  std::string from, to;                      ///< empty: the first of this month; now
  std::vector<std::string> by = {"tenant"};  ///< tenant, gpu, and one of month, day, hour
  std::string tenant;                        ///< empty: all
  bool as_csv = false;
};

/// Err(kInvalidArgument) names the option and what is accepted. `now` decides what empty ends mean.
Result<server::store::UsageQuery> usage_query(const UsageOptions& options,
                                              std::chrono::system_clock::time_point now);
int usage(Session session, const UsageOptions& options);

}  // namespace sluice::tool
