// Connecting and listening: everything that happens to a socket before bytes flow, with errors a
// user can act on.
#include "common/format.h"
#include "transport/tcp_connect.h"
#include "transport/transport.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

namespace sluice::transport {
namespace {

sockaddr_un unix_address(const std::string& path) {
  sockaddr_un out{};
  out.sun_family = AF_UNIX;
  std::memcpy(out.sun_path, path.c_str(), path.size());
  return out;
}

struct FreeAddresses {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

Result<Addresses> resolve(const Address& address, int flags) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const int error =
      getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &list);
  if (error != 0)
    return fail(ErrorCode::kNotFound,
                format("host \"{}\" cannot be resolved: {}", address.host, gai_strerror(error)));
  return Addresses(list);
}

/// Returns an errno. Blocking with a send timeout: a full backlog makes a non-blocking connect fail
/// at once, and such a socket polls writable although it is not connected.
int connect_unix(int fd, const sockaddr_un& to, std::chrono::milliseconds timeout) {
  const auto set_timeout = [fd](std::chrono::milliseconds value) {
    const timeval time{value.count() / 1000, value.count() % 1000 * 1000};
    ::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time);
  };
  set_timeout(std::max(timeout, std::chrono::milliseconds(1)));  // 0 would mean no limit
  int done = 0;
  do {
    done = ::connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to);
  } while (done != 0 && errno == EINTR);
  if (done != 0) return errno == EAGAIN ? ETIMEDOUT : errno;
  set_timeout({});
  return 0;
}

Error connect_error(const Address& address, int error) {
  const char* cause = std::strerror(error);
  const auto text = [&](const char* what, const char* advice) {
    return format("connecting to {}: {} ({}); {}", address.text(), what, cause, advice);
  };
  if (error == ECONNREFUSED || error == ENOENT)
    return {ErrorCode::kNotFound,
            text("no server is listening there", "start sluiced or check SLUICE_SERVER")};
  if (error == EACCES || error == EPERM)
    return {ErrorCode::kPermission,
            text("you may not use this socket", "ask the server's administrator for access to it")};
  if (error == ETIMEDOUT)
    return {ErrorCode::kTimeout,
            text("no answer", "check that the host is up and the port is open")};
  if (error == EHOSTUNREACH || error == ENETUNREACH)
    return {ErrorCode::kSystem,
            text("the host cannot be reached", "check SLUICE_SERVER and the network")};
  return system_error("connecting to " + address.text(), error);
}

/// Is somebody accepting on this path? Decides whether a leftover file may be replaced.
bool is_live(const sockaddr_un& path) {
  const Fd probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  return probe.valid() &&
         (::connect(probe.get(), reinterpret_cast<const sockaddr*>(&path), sizeof path) == 0 ||
          errno == EAGAIN);
}

Error in_use(const Address& address) {
  return Error{ErrorCode::kExhausted, format("listening on {}: address in use; another server is "
                                             "running there, stop it or choose another "
                                             "listen address",
                                             address.text())};
}

Result<Fd> listen_unix(const Address& address, unsigned mode) {
  const sockaddr_un path = unix_address(address.path);
  struct stat info {};
  if (::lstat(address.path.c_str(), &info) == 0) {
    if (!S_ISSOCK(info.st_mode))
      return fail(ErrorCode::kInvalidArgument,
                  format("listening on {}: this file exists and is no socket", address.text()));
    if (is_live(path)) return fail(in_use(address));
    ::unlink(address.path.c_str());
  }
  Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return fail(system_error("creating a UNIX socket", errno));
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&path), sizeof path) != 0)
    return fail(system_error("listening on " + address.text(), errno));
  // Nobody can connect before listen(), so the mode is right from the first client on.
  if (::chmod(address.path.c_str(), mode) != 0)
    return fail(system_error("setting the mode of " + address.text(), errno));
  if (::listen(fd.get(), 128) != 0)
    return fail(system_error("listening on " + address.text(), errno));
  return fd;
}

}  // namespace

void set_stream_options(int socket_fd) {
  const int one = 1;
  const int idle_s = 5;
  const int interval_s = 5;
  const int probe_count_max = 5;
  // On a UNIX socket these fail, which is what is wanted.
  ::setsockopt(socket_fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  ::setsockopt(socket_fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
  ::setsockopt(socket_fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
  ::setsockopt(socket_fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof interval_s);
  ::setsockopt(socket_fd, IPPROTO_TCP, TCP_KEEPCNT, &probe_count_max, sizeof probe_count_max);
}

Reach reach_of(int socket_fd) {
  sockaddr_storage peer{};
  socklen_t bytes = sizeof peer;
  if (::getpeername(socket_fd, reinterpret_cast<sockaddr*>(&peer), &bytes) != 0)
    return Reach::kNetwork;  // unknown: the safe answer
  if (peer.ss_family == AF_UNIX) return Reach::kUnix;
  const auto is_loopback_v4 = [](in_addr_t address) { return ntohl(address) >> 24 == 127; };
  bool is_near = false;
  if (peer.ss_family == AF_INET)
    is_near = is_loopback_v4(reinterpret_cast<const sockaddr_in&>(peer).sin_addr.s_addr);
  if (peer.ss_family == AF_INET6) {
    const in6_addr& address = reinterpret_cast<const sockaddr_in6&>(peer).sin6_addr;
    in_addr_t mapped = 0;
    std::memcpy(&mapped, address.s6_addr + 12, sizeof mapped);
    is_near = IN6_IS_ADDR_LOOPBACK(&address) ||
              (IN6_IS_ADDR_V4MAPPED(&address) && is_loopback_v4(mapped));
  }
  return is_near ? Reach::kLoopback : Reach::kNetwork;
}

Result<Fd> connect_socket(const Address& address, std::chrono::milliseconds timeout) {
  if (address.kind == Address::Kind::kUnix) {
    Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!fd.valid()) return fail(system_error("creating a UNIX socket", errno));
    const int error = connect_unix(fd.get(), unix_address(address.path), timeout);
    if (error != 0) return fail(connect_error(address, error));
    return fd;
  }
  const Deadline deadline = Clock::now() + timeout;
  auto list = resolve(address, 0);
  if (!list) return fail(list.error().with_context("connecting to " + address.text()));
  std::vector<TcpTarget> targets;
  for (const addrinfo* a = list->get(); a != nullptr; a = a->ai_next) {
    TcpTarget& target = targets.emplace_back();
    target.bytes = a->ai_addrlen;
    std::memcpy(&target.address, a->ai_addr, a->ai_addrlen);
  }
  TcpConnected connected = connect_any(targets, deadline);
  if (!connected.socket.valid()) return fail(connect_error(address, connected.error));
  set_stream_options(connected.socket.get());
  return std::move(connected.socket);
}

Result<Fd> accept_socket(int listen_fd) {
  for (;;) {
    Fd fd(::accept4(listen_fd, nullptr, nullptr, SOCK_CLOEXEC));
    if (fd.valid()) {
      set_stream_options(fd.get());
      return fd;
    }
    // A client that gave up while it was queued is no reason to stop accepting.
    if (errno == EINTR || errno == ECONNABORTED) continue;
    if (errno == EAGAIN) return fail(ErrorCode::kTimeout, "no client is waiting");
    return fail(system_error("accepting a client", errno));
  }
}

Result<Fd> listen_socket(const Address& address, unsigned mode) {
  if (address.kind == Address::Kind::kUnix) return listen_unix(address, mode == 0 ? 0600 : mode);
  auto list = resolve(address, AI_PASSIVE);
  if (!list) return fail(list.error().with_context("listening on " + address.text()));
  int error = EADDRNOTAVAIL;
  for (const addrinfo* a = list->get(); a != nullptr; a = a->ai_next) {
    Fd fd(::socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol));
    if (!fd.valid()) continue;
    const int one = 1;
    ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    // [::] serves IPv4 as well, whatever the host's default.
    const int no = 0;
    if (a->ai_family == AF_INET6) ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
    if (::bind(fd.get(), a->ai_addr, a->ai_addrlen) == 0 && ::listen(fd.get(), 128) == 0) return fd;
    error = errno;
  }
  if (error == EADDRINUSE) return fail(in_use(address));
  return fail(system_error("listening on " + address.text(), error));
}

Result<Address> bound_address(const Address& wanted, int listen_fd) {
  if (wanted.kind == Address::Kind::kUnix) return wanted;
  sockaddr_storage bound{};
  socklen_t bytes = sizeof bound;
  if (::getsockname(listen_fd, reinterpret_cast<sockaddr*>(&bound), &bytes) != 0)
    return fail(system_error("asking for the bound address of " + wanted.text(), errno));
  Address out = wanted;
  out.port =
      ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(bound).sin6_port
                                        : reinterpret_cast<const sockaddr_in&>(bound).sin_port);
  return out;
}

}  // namespace sluice::transport
