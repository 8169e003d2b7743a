// Sends and receives whole bootstrap frames on a socket, blocking or not, within a deadline,
// without reading past the frame: wire records may follow on the same descriptor.
#pragma once

#include "common/fd.h"
#include "common/result.h"
#include "protocol/bootstrap.h"

#include <chrono>

namespace sluice::wire {

using FrameDeadline = std::chrono::steady_clock::time_point;

/// Returns when everything is sent. Never raises SIGPIPE. Err(kTimeout), Err(kPeerClosed), or
/// Err(kInvalidArgument) for a frame over kFrameBytesMax (nothing is sent then).
Status write_frame(int fd, const Frame& frame, FrameDeadline deadline = FrameDeadline::max());
/// The same over a UNIX socket, with a descriptor beside the frame.
Status write_frame_with(int passed_fd, int fd, const Frame& frame,
                        FrameDeadline deadline = FrameDeadline::max());
/// Err(kTimeout), Err(kPeerClosed) or Err(kProtocol).
Result<Frame> read_frame(int fd, FrameDeadline deadline);
/// The same; a descriptor that came beside the frame goes to `passed`, close-on-exec.
Result<Frame> read_frame_with(Fd* passed, int fd, FrameDeadline deadline);

}  // namespace sluice::wire
