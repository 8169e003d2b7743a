// Whether a server would let this user in, in words for people: what the program itself would only
// see as an error of cuInit.
#pragma once

#include "common/result.h"
#include "tools/sluice/settings.h"
#include "transport/transport.h"

#include <string>

namespace sluice::tool {

/// Where to go and what to show there.
struct Target {
  transport::Address address;
  std::string tenant, token;
  transport::tls::ClientChoice tls;
};
/// Err: what is wrong on the user's side, an address that is none or a token file that cannot be
/// read.
Result<Target> target_of(const Settings& settings);
/// The server's name of itself. Makes no session. Err: what is wrong with the server or what it
/// refuses, and the fix.
Result<std::string> probe(const Target& target);

}  // namespace sluice::tool
