// Who this process is and to which server it belongs, as the environment says: for all client
// libraries that speak to a broker.
#pragma once

#include "common/result.h"
#include "protocol/bootstrap.h"

#include <string>

namespace sluice::shim {

/// Empty if it is not set.
std::string environment(const char* name);
/// What SLUICE_SERVER must say, for people.
Error no_server_named();
/// Versions, tenant, token and this process; the features are the caller's. Err: the token file
/// cannot be read.
Result<wire::Hello> hello_from_environment();

}  // namespace sluice::shim
