// Both ends of a channel over UCX in one process.
#pragma once

#include "transport/transport.h"
#include "transport/ucx/plugin.h"

namespace sluice {

/// UCX with the lane of `kind`, "ucx_tcp" or "ucx_rc"; a process has one for good. Ends the test
/// program if it cannot be loaded.
transport::ucx::Plugin& ucx_plugin(const std::string& kind);
/// Where both ends of that kind can meet on this machine.
std::string ucx_host(const std::string& kind);
transport::LoopPair make_ucx_pair(const std::string& kind);

}  // namespace sluice
