// Both ends of a channel over UCX, with staging memory, in one process.
#pragma once

#include "transport/transport.h"
#include "transport/ucx/plugin.h"

#include <functional>
#include <string>

namespace sluice {

/// UCX with the lane of `kind`, "ucx_tcp" or "ucx_rc"; a process has one for good. Ends the test
/// program if it cannot be loaded.
transport::ucx::Plugin& ucx_plugin(const std::string& kind);
/// Where both ends of that kind can meet on this machine.
std::string ucx_host(const std::string& kind);
/// `no_staging` as for Plugin::connect().
transport::LoopPair make_ucx_pair(const std::string& kind,
                                  const std::function<void()>& before_connecting = {},
                                  std::string* no_staging = nullptr);

}  // namespace sluice
