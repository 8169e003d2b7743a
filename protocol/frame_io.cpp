#include "protocol/frame_io.h"

#include "common/format.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
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

Status read_exactly(int fd, std::span<std::byte> into, FrameDeadline deadline) {
  while (!into.empty()) {
    SLUICE_CHECK(wait_ready(fd, POLLIN, deadline));
    const ssize_t got = ::recv(fd, into.data(), into.size(), MSG_DONTWAIT);
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
  const std::vector<std::byte> bytes = encode_frame(frame);
  if (bytes.size() > kFrameBytesMax)
    return fail(
        ErrorCode::kInvalidArgument,
        format("bootstrap frame of {} bytes (allowed: up to {})", bytes.size(), kFrameBytesMax));
  std::span<const std::byte> rest = bytes;
  while (!rest.empty()) {
    const ssize_t sent = ::send(fd, rest.data(), rest.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) {
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
  std::vector<std::byte> bytes(kFramePrefixBytes);
  SLUICE_CHECK(read_exactly(fd, bytes, deadline));
  SLUICE_TRY(const std::size_t total, frame_bytes(bytes));
  bytes.resize(total);
  SLUICE_CHECK(read_exactly(fd, std::span(bytes).subspan(kFramePrefixBytes), deadline));
  return decode_frame(bytes);
}

}  // namespace sluice::wire
