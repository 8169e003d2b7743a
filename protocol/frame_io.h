// Sends and receives whole bootstrap frames on a blocking socket, within a deadline, without reading past the frame: wire
// records may follow on the same descriptor.
#pragma once

#include "common/result.h"
#include "protocol/bootstrap.h"

#include <chrono>

namespace sluice::wire {

/// Blocks until everything is sent. Never raises SIGPIPE.
Status write_frame(int fd, const Frame& frame);
/// Err(kTimeout), Err(kPeerClosed) or Err(kProtocol).
Result<Frame> read_frame(int fd, std::chrono::steady_clock::time_point deadline);

}  // namespace sluice::wire
