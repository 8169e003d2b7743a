// The server from here: whether it lets the user in, what a session with it is like, and what that
// means for a program.
#pragma once

#include "tools/sluice/doctor/findings.h"
#include "tools/sluice/settings.h"

#include <string>

namespace sluice::tool {

struct ServerCheck {
  std::string library;   ///< the client's libcuda.so.1
  bool measures = true;  ///< false: asks whether the server would let the user in, and no more
};

/// The settings name a server. Gives the transport that a session used; empty: there was none.
std::string check_server(const Settings& settings, const ServerCheck& check, Findings& findings);
/// What would carry the calls of a server that is not asked: as far as this host can tell.
void check_transport(const Settings& settings, Findings& findings);

}  // namespace sluice::tool
