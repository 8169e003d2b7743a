// The worker's end of the data connections: the socket that the broker handed over, or memory
// shared with the client, if it offers some and we can take it; and the lanes beside it.
#pragma once

#include "common/fd.h"
#include "common/result.h"
#include "transport/stream/byte_stream.h"
#include "transport/transport.h"

#include <memory>

namespace sluice::server {

struct DataOptions {
  bool offers_shared_memory = false;
  bool wants_ucx = false;  ///< (server/worker/ucx_channel.h)
  /// Receive by io_uring, on the thread that opens the channel; without it if that is refused.
  bool uses_io_uring = false;
};

/// `lanes` are further connections of the client, for bulk data. Err: the client broke the protocol
/// or is gone. Memory that cannot be taken is refused to the client, with one line in the log, and
/// the socket carries the session.
Result<std::unique_ptr<transport::Channel>> open_data_channel(Fd socket, const DataOptions& options,
                                                              transport::Lanes lanes = {});

}  // namespace sluice::server
