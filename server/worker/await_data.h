// Until the client's data connections have come: that for records and as many lanes as it
// announces. The broker hands over what somebody attached to the session. Of a plain one it knows
// the session key; an encrypted one has to prove it here, with its place among them, and until it
// has, anybody who knows the session's number may have sent it: such a stranger must neither get in
// nor keep the client out.
#pragma once

#include "common/result.h"
#include "server/link.h"
#include "server/worker/resumption.h"
#include "transport/transport.h"

#include <chrono>
#include <memory>

namespace sluice::server {

/// Tells the broker when all connections of an encrypted session have proved themselves. Err: the
/// broker is gone or says something else, or a plain client broke the protocol.
/// Once one is there, the rest has so much time.
Result<std::unique_ptr<transport::Channel>> await_data_channel(
    int link_fd, const link::Start& start, Resumption& resumption,
    std::chrono::milliseconds rest_time = std::chrono::seconds(10));

}  // namespace sluice::server
