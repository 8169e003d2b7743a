#include "protocol/frame_io.h"

#include "common/fd_passing.h"
#include "common/format.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

namespace sluice::wire {
namespace {

/// Returns when the socket is ready, broken or was interrupted; the caller's next attempt tells
/// which.
Status wait_ready(int fd, short events, FrameDeadline deadline) {
  using std::chrono::milliseconds;
  int left_ms = -1;
  if (deadline != FrameDeadline::max()) {
    const auto now = std::chrono::steady_clock::now();
    const long left = deadline <= now ? 0 : std::chrono::ceil<milliseconds>(deadline - now).count();
    left_ms = static_cast<int>(std::min(left, 1L << 30));
  }
  pollfd p{fd, events, 0};
  const int ready = ::poll(&p, 1, left_ms);
  if (ready == 0) return fail(ErrorCode::kTimeout, "the peer did not answer in time");
  if (ready < 0 && errno != EINTR) return fail(system_error("waiting for the peer", errno));
  return {};
}

bool is_retryable(int error) {
  return error == EINTR || error == EAGAIN || error == EWOULDBLOCK;
}

/// As recv(); without `passed` the host kernel drops descriptors that come along.
ssize_t receive(int fd, std::span<std::byte> into, Fd* passed) {
  if (passed == nullptr) return ::recv(fd, into.data(), into.size(), MSG_DONTWAIT);
  ReceivedBytes received = receive_with_fd(fd, into, MSG_DONTWAIT);
  if (!passed->valid()) *passed = std::move(received.passed);
  return received.bytes;
}

Status read_exactly(int fd, std::span<std::byte> into, FrameDeadline deadline, Fd* passed) {
  while (!into.empty()) {
    SLUICE_CHECK(wait_ready(fd, POLLIN, deadline));
    const ssize_t got = receive(fd, into, passed);
    if (got < 0 && is_retryable(errno)) continue;
    if (got == 0) return fail(ErrorCode::kPeerClosed, "the peer closed the connection");
    if (got < 0 && errno == ECONNRESET)
      return fail(ErrorCode::kPeerClosed, "the peer reset the connection");
    if (got < 0) return fail(system_error("receiving", errno));
    into = into.subspan(static_cast<std::size_t>(got));
  }
  return {};
}

}  // namespace

Status write_frame(int fd, const Frame& frame, FrameDeadline deadline) {
  return write_frame_with(-1, fd, frame, deadline);
}

Status write_frame_with(int passed_fd, int fd, const Frame& frame, FrameDeadline deadline) {
  const std::vector<std::byte> bytes = encode_frame(frame);
  if (bytes.size() > kFrameBytesMax)
    return fail(
        ErrorCode::kInvalidArgument,
        format("bootstrap frame of {} bytes (allowed: up to {})", bytes.size(), kFrameBytesMax));
  std::span<const std::byte> rest = bytes;
  while (!rest.empty()) {
    const ssize_t sent = send_with_fd(fd, rest, passed_fd, MSG_DONTWAIT);
    if (sent >= 0) {
      if (sent > 0) passed_fd = -1;
      rest = rest.subspan(static_cast<std::size_t>(sent));
    } else if (is_retryable(errno)) {
      SLUICE_CHECK(wait_ready(fd, POLLOUT, deadline));
    } else if (errno == EPIPE || errno == ECONNRESET) {
      return fail(ErrorCode::kPeerClosed, "the peer closed the connection while a frame was sent");
    } else {
      return fail(system_error("sending", errno));
    }
  }
  return {};
}

Result<Frame> read_frame(int fd, FrameDeadline deadline) {
  return read_frame_with(nullptr, fd, deadline);
}

Result<Frame> read_frame_with(Fd* passed, int fd, FrameDeadline deadline) {
  std::vector<std::byte> bytes(kFramePrefixBytes);
  SLUICE_CHECK(read_exactly(fd, bytes, deadline, passed));
  SLUICE_TRY(const std::size_t total, frame_bytes(bytes));
  bytes.resize(total);
  SLUICE_CHECK(read_exactly(fd, std::span(bytes).subspan(kFramePrefixBytes), deadline, passed));
  return decode_frame(bytes);
}

}  // namespace sluice::wire
