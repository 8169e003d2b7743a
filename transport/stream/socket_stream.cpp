// A socket as it is.
#include "transport/stream/byte_stream.h"
#include "transport/stream/socket_ending.h"

#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <cerrno>
#include <cstring>

namespace sluice::transport {
namespace {

bool is_unix_socket(int fd) {
  int domain = AF_UNIX;
  socklen_t bytes = sizeof domain;
  return ::getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &bytes) == 0 && domain == AF_UNIX;
}

Error broken(const char* doing, int error) {
  return {ErrorCode::kPeerClosed, std::string(doing) + ": " + std::strerror(error)};
}

/// ppoll() until the deadline; Deadline::max() is for ever.
int sleep_until(pollfd* p, Deadline deadline) {
  if (deadline == Deadline::max()) return ::ppoll(p, 1, nullptr, nullptr);
  const auto left_ns = std::chrono::nanoseconds(left_until(deadline)).count();
  const timespec left{left_ns / 1'000'000'000, left_ns % 1'000'000'000};
  return ::ppoll(p, 1, &left, nullptr);
}

class SocketStream final : public ByteStream {
 public:
  explicit SocketStream(Fd socket)
      : socket_(std::move(socket)), is_unix_(is_unix_socket(socket_.get())) {}

  Result<std::size_t> send_some(std::span<const std::byte> bytes) override {
    if (is_closed_) return fail(ErrorCode::kPeerClosed, "sending: this connection is closed");
    for (;;) {
      const ssize_t sent =
          ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent >= 0) return static_cast<std::size_t>(sent);
      if (errno == EAGAIN || errno == EWOULDBLOCK) return std::size_t{0};
      if (errno != EINTR) return fail(note_broken("sending", errno));
    }
  }

  Result<std::size_t> receive_some(std::span<std::byte> into) override {
    for (;;) {
      const ssize_t got = ::recv(socket_.get(), into.data(), into.size(), MSG_DONTWAIT);
      if (got > 0) return static_cast<std::size_t>(got);
      if (got == 0) return fail(note_end());
      if (errno == EAGAIN || errno == EWOULDBLOCK) return std::size_t{0};
      if (errno != EINTR) return fail(note_broken("the connection broke", errno));
    }
  }

  Result<bool> wait(For what, Deadline deadline) override {
    return wait_on(socket_.get(), what, deadline);
  }

  [[nodiscard]] int fd() const override { return socket_.get(); }
  [[nodiscard]] Kind kind() const override {
    return {.same_host = is_unix_, .encrypted = false, .name = is_unix_ ? "unix" : "tcp"};
  }

  // Over TCP, bytes that the peer sends after this make our host kernel reset the connection, and
  // what it had not yet transmitted is then lost: an orderly end lets the peer fall silent first.
  void close() noexcept override {
    is_closed_ = true;
    ::shutdown(socket_.get(), SHUT_RDWR);
  }
  void abandon_in_child() noexcept override { socket_.reset(); }
  [[nodiscard]] Ending ending() const override { return ending_.get(); }

 private:
  Error note_broken(const char* doing, int error) {
    ending_.note_error(error);
    return broken(doing, error);
  }
  Error note_end() {
    ending_.note_end(socket_.get(), is_closed_);
    return {ErrorCode::kPeerClosed, "the peer closed the connection"};
  }

  Fd socket_;
  bool is_unix_ = false;
  std::atomic<bool> is_closed_{false};
  SocketEnding ending_;
};

}  // namespace

Result<bool> wait_on(int fd, ByteStream::For what, Deadline deadline) {
  const bool sends = what == ByteStream::For::kSend;
  // A sender looks at the peer's end, too: over TCP it would else sleep on when the peer closes
  // without having read.
  pollfd p{fd, static_cast<short>(sends ? POLLOUT | POLLRDHUP : POLLIN), 0};
  for (;;) {
    const int ready = sleep_until(&p, deadline);
    if (ready < 0 && errno == EINTR) continue;
    if (ready < 0)
      return fail(system_error(sends ? "waiting to send" : "waiting for the peer", errno));
    if (sends && (p.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0)
      return fail(ErrorCode::kPeerClosed, "sending: the peer closed the connection");
    return ready > 0;
  }
}

std::unique_ptr<ByteStream> make_socket_stream(Fd socket) {
  return std::make_unique<SocketStream>(std::move(socket));
}

}  // namespace sluice::transport
