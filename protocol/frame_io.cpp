#include "protocol/frame_io.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <vector>

namespace sluice::wire {
namespace {

Status read_exactly(int fd, std::span<std::byte> into, std::chrono::steady_clock::time_point deadline) {
  while (!into.empty()) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now()).count();
    pollfd p{fd, POLLIN, 0};
    const int ready = ::poll(&p, 1, static_cast<int>(std::max<long>(left, 0)));
    if (ready == 0) return fail(ErrorCode::kTimeout, "the peer did not answer in time");
    if (ready < 0 && errno == EINTR) continue;
    const ssize_t got = ::recv(fd, into.data(), into.size(), MSG_DONTWAIT);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got == 0) return fail(ErrorCode::kPeerClosed, "the peer closed the connection");
    if (got < 0) return fail(system_error("receiving", errno));
    into = into.subspan(static_cast<std::size_t>(got));
  }
  return {};
}

}  // namespace

Status write_frame(int fd, const Frame& frame) {
  const std::vector<std::byte> bytes = encode_frame(frame);
  std::span<const std::byte> rest = bytes;
  while (!rest.empty()) {
    const ssize_t sent = ::send(fd, rest.data(), rest.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return fail(ErrorCode::kPeerClosed, "the peer closed the connection while a frame was sent");
    rest = rest.subspan(static_cast<std::size_t>(sent));
  }
  return {};
}

Result<Frame> read_frame(int fd, std::chrono::steady_clock::time_point deadline) {
  std::vector<std::byte> bytes(kFramePrefixBytes);
  SLUICE_CHECK(read_exactly(fd, bytes, deadline));
  SLUICE_TRY(const std::size_t total, frame_bytes(bytes));
  bytes.resize(total);
  SLUICE_CHECK(read_exactly(fd, std::span(bytes).subspan(kFramePrefixBytes), deadline));
  return decode_frame(bytes);
}

}  // namespace sluice::wire
