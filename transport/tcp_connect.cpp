#include "transport/tcp_connect.h"

#include <fcntl.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <vector>

namespace sluice::transport {
namespace {

/// First one of the family of the first, then one of the other, and so on.
std::vector<TcpTarget> interleave(std::span<const TcpTarget> targets) {
  std::vector<TcpTarget> own, other, out;
  for (const TcpTarget& target : targets)
    (target.address.ss_family == targets.front().address.ss_family ? own : other).push_back(target);
  for (std::size_t i = 0; i < std::max(own.size(), other.size()); ++i) {
    if (i < own.size()) out.push_back(own[i]);
    if (i < other.size()) out.push_back(other[i]);
  }
  return out;
}

/// A host that has no IPv6 says so about every such address, which explains nothing.
bool is_telling(int error) {
  return error != ENETUNREACH && error != EHOSTUNREACH && error != EAFNOSUPPORT &&
         error != EADDRNOTAVAIL && error != EINVAL;
}

/// What is left until the deadline, for poll(): rounded up, so that a wait never ends just before
/// it.
int left_ms(Deadline deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(left_until(deadline));
  return static_cast<int>(std::min<long>(left.count(), 1 << 30));
}

class Race {
 public:
  TcpConnected run(std::span<const TcpTarget> targets, Deadline deadline) {
    Deadline next_start = Clock::now();
    std::size_t started = 0;
    for (;;) {
      const auto now = Clock::now();
      while (started < targets.size() && (attempts_.empty() || next_start <= now)) {
        if (auto done = start(targets[started++])) return finish(std::move(*done));
        next_start = now + kHeadStart;
        if (attempts_.empty()) next_start = now;
      }
      if (attempts_.empty()) return {Fd(), error_};
      if (now >= deadline) return {Fd(), is_telling(error_) && error_ != 0 ? error_ : ETIMEDOUT};
      const Deadline until = started < targets.size() ? std::min(next_start, deadline) : deadline;
      const std::size_t before = attempts_.size();
      if (auto done = look(until)) return finish(std::move(*done));
      if (attempts_.size() < before) next_start = Clock::now();  // it failed: the next one's turn
    }
  }

 private:
  void note(int error) {
    if (error_ == 0 || !is_telling(error_)) error_ = error;
  }

  std::optional<Fd> start(const TcpTarget& target) {
    Fd fd(::socket(target.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!fd.valid()) {
      note(errno);
      return std::nullopt;
    }
    if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&target.address), target.bytes) == 0)
      return fd;
    if (errno == EINPROGRESS || errno == EINTR)
      attempts_.push_back(std::move(fd));
    else
      note(errno);
    return std::nullopt;
  }

  std::optional<Fd> look(Deadline until) {
    std::vector<pollfd> polled;
    for (const Fd& fd : attempts_) polled.push_back({fd.get(), POLLOUT, 0});
    const int ready = ::poll(polled.data(), polled.size(), left_ms(until));
    if (ready <= 0) return std::nullopt;
    for (std::size_t i = polled.size(); i-- > 0;) {
      if (polled[i].revents == 0) continue;
      int error = 0;
      socklen_t length = sizeof error;
      if (::getsockopt(polled[i].fd, SOL_SOCKET, SO_ERROR, &error, &length) != 0) error = errno;
      if (error == 0) return std::move(attempts_[i]);
      note(error);
      attempts_.erase(attempts_.begin() + static_cast<std::ptrdiff_t>(i));
    }
    return std::nullopt;
  }

  static TcpConnected finish(Fd fd) {
    const int flags = ::fcntl(fd.get(), F_GETFL);
    if (::fcntl(fd.get(), F_SETFL, flags & ~O_NONBLOCK) != 0) return {Fd(), errno};
    return {std::move(fd), 0};
  }

  std::vector<Fd> attempts_;
  int error_ = 0;
};

}  // namespace

TcpConnected connect_any(std::span<const TcpTarget> targets, Deadline deadline) {
  if (targets.empty()) return {Fd(), EADDRNOTAVAIL};
  const std::vector<TcpTarget> order = interleave(targets);
  return Race().run(order, deadline);
}

}  // namespace sluice::transport
