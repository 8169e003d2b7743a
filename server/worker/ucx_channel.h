// The worker's half of agreeing on UCX. It listens for its one client and tells it where, on the
// socket that the broker handed over.
#pragma once

#include "common/fd.h"
#include "common/result.h"
#include "transport/transport.h"

#include <memory>

namespace sluice::server {

/// For a client that asked for it in its Attach. What is impossible here is said to the client,
/// with one line in the log, and the socket carries the session. Err: the client broke the protocol
/// or is gone.
Result<std::unique_ptr<transport::Channel>> open_ucx_channel(Fd socket);

}  // namespace sluice::server
