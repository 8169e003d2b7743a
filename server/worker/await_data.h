// Until the client's data connection has come. The broker hands over what somebody attached to the
// session. Of a plain one it knows the session key; an encrypted one has to prove it here, and as
// long as none has, anybody who knows the session's number may have sent it: such a stranger must
// neither get in nor keep the client out.
#pragma once

#include "common/result.h"
#include "server/link.h"
#include "server/worker/resumption.h"
#include "transport/transport.h"

#include <memory>

namespace sluice::server {

/// Tells the broker when an encrypted connection has proved itself. Err: the broker is gone or says
/// something else, or a plain client broke the protocol.
Result<std::unique_ptr<transport::Channel>> await_data_channel(int link_fd,
                                                               const link::Start& start,
                                                               Resumption& resumption);

}  // namespace sluice::server
