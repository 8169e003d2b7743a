// Who is at the other end of a connection, for the log.
#pragma once

#include <string>

namespace sluice::server {

/// "uid=1000,pid=4711" of a UNIX socket, as the host kernel vouches for it; "10.0.0.7:40312" of
/// TCP.
std::string peer_text(int socket);

}  // namespace sluice::server
