// The worker's end of the data connection: the socket that the broker handed over, or memory shared
// with the client, if it offers some and we can take it.
#pragma once

#include "common/fd.h"
#include "common/result.h"
#include "transport/transport.h"

#include <memory>

namespace sluice::server {

/// Err: the client broke the protocol or is gone. Memory that cannot be taken is refused to the
/// client, with one line in the log, and the socket carries the session.
/// The same with UCX, for which the client asks (server/worker/ucx_channel.h).
Result<std::unique_ptr<transport::Channel>> open_data_channel(Fd socket, bool offers_shared_memory,
                                                              bool wants_ucx = false);

}  // namespace sluice::server
