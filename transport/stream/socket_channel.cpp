// UNIX and TCP sockets. Payloads go through one small send buffer that stays hot in the cache:
// handing large, cold user buffers to the host kernel costs several times more than copying them
// through it (measured: bench/transport_bench.cpp).
#include "transport/transport.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <vector>

namespace sluice::transport {
namespace {

constexpr std::size_t kSendBufferBytes = 64 * 1024;
constexpr std::size_t kReceiveBufferBytes = 256 * 1024;

bool is_unix_socket(int fd) {
  int domain = AF_UNIX;
  socklen_t bytes = sizeof domain;
  return ::getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &bytes) == 0 && domain == AF_UNIX;
}

Error broken(const char* doing, int error) {
  return {ErrorCode::kPeerClosed, std::string(doing) + ": " + std::strerror(error)};
}

/// The sending members belong to the sending side, receive_ to the receiving side; what both touch
/// is atomic.
class SocketChannel final : public Channel {
 public:
  explicit SocketChannel(Fd socket)
      : socket_(std::move(socket)),
        is_unix_(is_unix_socket(socket_.get())),
        send_(kSendBufferBytes),
        receive_(kReceiveBufferBytes) {}

  std::span<std::byte> reserve(std::size_t bytes) override {
    if (bytes > send_.size() || !send_status_) return {};
    if (used_ + bytes > send_.size() && !flush()) return {};
    return {send_.data() + used_, bytes};
  }

  void commit(std::size_t bytes, FlushHint hint) override {
    used_ += bytes;
    const bool is_due =
        hint == FlushHint::kNow || (hint == FlushHint::kSoon && used_ >= kSoonBytes);
    if (is_due)
      static_cast<void>(
          flush());  // send_status_ keeps the failure for the next reserve() and flush()
  }

  Status flush() override {
    if (send_status_) send_status_ = send_all({send_.data(), used_});
    used_ = 0;
    return send_status_;
  }

  [[nodiscard]] std::size_t unflushed_bytes() const override { return used_; }

  Status write_through(std::span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      const std::size_t piece = std::min(bytes.size(), send_.size() - used_);
      std::memcpy(send_.data() + used_, bytes.data(), piece);
      used_ += piece;
      bytes = bytes.subspan(piece);
      if (used_ == send_.size()) SLUICE_CHECK(flush());
    }
    return flush();
  }

  Result<std::size_t> poll(RecvSink& sink, std::size_t budget_bytes) override {
    std::size_t total = 0;
    while (total < budget_bytes) {
      const std::size_t wanted = std::min(receive_.size(), budget_bytes - total);
      const ssize_t got = ::recv(socket_.get(), receive_.data(), wanted, MSG_DONTWAIT);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
      if (got <= 0 && total > 0) break;  // the next poll() tells
      if (got < 0) return fail(broken("the connection broke", errno));
      if (got == 0) return fail(ErrorCode::kPeerClosed, "the peer closed the connection");
      const auto bytes = static_cast<std::size_t>(got);
      SLUICE_CHECK(sink.on_bytes({receive_.data(), bytes}));
      total += bytes;
      if (bytes < wanted) break;
    }
    return total;
  }

  Result<bool> wait(Deadline deadline) override {
    for (;;) {
      const int ready = sleep_until(deadline, POLLIN);
      if (ready > 0) return true;
      if (ready == 0) return false;
      if (errno != EINTR) return fail(system_error("waiting for the peer", errno));
    }
  }

  [[nodiscard]] int wait_fd() const override { return socket_.get(); }

  [[nodiscard]] Caps caps() const override {
    return Caps{.reserve_bytes_max = kSendBufferBytes,
                .same_host = is_unix_,
                .encrypted = false,
                .name = is_unix_ ? "unix" : "tcp"};
  }

  // Over TCP, bytes that the peer sends after this make our host kernel reset the connection, and
  // what it had not yet transmitted is then lost: an orderly end lets the peer fall silent first.
  void close() noexcept override {
    is_closed_ = true;
    ::shutdown(socket_.get(), SHUT_RDWR);
  }

  void abandon_in_child() noexcept override { socket_.reset(); }

 private:
  /// ppoll() on the socket; Deadline::max() is for ever.
  int sleep_until(Deadline deadline, short events) {
    pollfd p{socket_.get(), events, 0};
    if (deadline == Deadline::max()) return ::ppoll(&p, 1, nullptr, nullptr);
    const auto now = Clock::now();
    const auto left_ns = deadline <= now ? 0 : std::chrono::nanoseconds(deadline - now).count();
    const timespec left{left_ns / 1'000'000'000, left_ns % 1'000'000'000};
    return ::ppoll(&p, 1, &left, nullptr);
  }

  Status send_all(std::span<const std::byte> bytes) {
    if (is_closed_) return fail(ErrorCode::kPeerClosed, "sending: this channel is closed");
    while (!bytes.empty()) {
      const ssize_t sent =
          ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent >= 0) {
        bytes = bytes.subspan(static_cast<std::size_t>(sent));
      } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
        SLUICE_CHECK(wait_for_room());
      } else if (errno != EINTR) {
        return fail(broken("sending", errno));
      }
    }
    return {};
  }

  /// Not a blocking send(): over TCP that one would sleep on when the peer closes without having
  /// read.
  Status wait_for_room() {
    pollfd p{socket_.get(), POLLOUT | POLLRDHUP, 0};
    if (::poll(&p, 1, -1) < 0 && errno != EINTR)
      return fail(system_error("waiting to send", errno));
    if ((p.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0)
      return fail(ErrorCode::kPeerClosed, "sending: the peer closed the connection");
    return {};
  }

  Fd socket_;
  bool is_unix_ = false;
  std::atomic<bool> is_closed_{false};
  std::vector<std::byte> send_;
  std::size_t used_ = 0;
  Status send_status_;  ///< the first failure stays
  std::vector<std::byte> receive_;
};

}  // namespace

std::unique_ptr<Channel> make_socket_channel(Fd socket) {
  return std::make_unique<SocketChannel>(std::move(socket));
}

}  // namespace sluice::transport
