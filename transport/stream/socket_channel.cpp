// UNIX and TCP sockets. Sent bytes are batched in one small buffer that stays hot in the cache: handing large, cold user
// buffers to the host kernel costs several times more here than copying them through it (transport notes, 0.7).
#include "transport/transport.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <vector>

namespace sluice::transport {
namespace {

constexpr std::size_t kSendBufferBytes = 128 * 1024;
constexpr std::size_t kReceiveBufferBytes = 256 * 1024;

class SocketChannel final : public Channel {
 public:
  explicit SocketChannel(Fd socket) : socket_(std::move(socket)), send_(kSendBufferBytes), receive_(kReceiveBufferBytes) {
    sockaddr_storage name{};
    socklen_t bytes = sizeof name;
    ::getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&name), &bytes);
    is_unix_ = name.ss_family == AF_UNIX;
    const int one = 1;
    if (!is_unix_) ::setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  }

  std::span<std::byte> reserve(std::size_t bytes) override {
    if (bytes > send_.size() || is_dead_.load(std::memory_order_relaxed)) return {};
    if (used_ + bytes > send_.size() && !flush()) return {};
    return {send_.data() + used_, bytes};
  }

  void commit(std::size_t bytes, FlushHint hint) override {
    used_ += bytes;
    if (hint == FlushHint::kNow) static_cast<void>(flush());  // a failure is told by the next reserve() and flush()
  }

  Status flush() override {
    const Status sent = send_all(send_.data(), used_);
    used_ = 0;
    return sent;
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
      const ssize_t got = ::recv(socket_.get(), receive_.data(), receive_.size(), MSG_DONTWAIT);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
      if (got <= 0) {
        if (total > 0) break;  // deliver first, report at the next poll
        is_dead_ = true;
        return fail(ErrorCode::kPeerClosed, got == 0 ? "the peer closed the connection"
                                                     : std::string("the connection broke: ") + std::strerror(errno));
      }
      SLUICE_CHECK(sink.on_bytes({receive_.data(), static_cast<std::size_t>(got)}));
      total += static_cast<std::size_t>(got);
      if (static_cast<std::size_t>(got) < receive_.size()) break;
    }
    return total;
  }

  Result<bool> wait(Deadline deadline) override {
    for (;;) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
      pollfd p{socket_.get(), POLLIN, 0};
      const int ready = ::poll(&p, 1, static_cast<int>(std::clamp<long>(left, 0, 1 << 30)));
      if (ready > 0) return true;
      if (ready == 0) return false;
      if (errno != EINTR) return fail(system_error("waiting for the peer", errno));
    }
  }

  [[nodiscard]] int wait_fd() const override { return socket_.get(); }

  [[nodiscard]] Caps caps() const override {
    return Caps{.reserve_bytes_max = kSendBufferBytes, .same_host = is_unix_, .encrypted = false, .name = is_unix_ ? "unix" : "tcp"};
  }

  void close() noexcept override {
    is_dead_ = true;
    ::shutdown(socket_.get(), SHUT_RDWR);
  }

 private:
  Status send_all(const std::byte* data, std::size_t bytes) {
    while (bytes > 0) {
      const ssize_t sent = ::send(socket_.get(), data, bytes, MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR) continue;
      if (sent <= 0) {
        is_dead_ = true;
        return fail(ErrorCode::kPeerClosed, std::string("sending: ") + std::strerror(errno));
      }
      data += sent;
      bytes -= static_cast<std::size_t>(sent);
    }
    if (is_dead_) return fail(ErrorCode::kPeerClosed, "the channel is closed");
    return {};
  }

  Fd socket_;
  bool is_unix_ = false;
  std::atomic<bool> is_dead_{false};
  std::vector<std::byte> send_;
  std::size_t used_ = 0;
  std::vector<std::byte> receive_;
};

}  // namespace

std::unique_ptr<Channel> make_socket_channel(Fd socket) { return std::make_unique<SocketChannel>(std::move(socket)); }

}  // namespace sluice::transport
