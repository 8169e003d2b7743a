#include "common/format.h"
#include "transport/transport.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>
#include <memory>

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
  const int error = getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &list);
  if (error != 0)
    return fail(ErrorCode::kNotFound, format("host \"{}\" cannot be resolved: {}", address.host, gai_strerror(error)));
  return Addresses(list);
}

/// Connects within the time, then makes the socket blocking again.
int connect_within(int fd, const sockaddr* to, socklen_t bytes, std::chrono::milliseconds timeout) {
  if (::connect(fd, to, bytes) != 0) {
    if (errno != EINPROGRESS && errno != EAGAIN) return errno;
    pollfd p{fd, POLLOUT, 0};
    const int ready = ::poll(&p, 1, static_cast<int>(timeout.count()));
    if (ready == 0) return ETIMEDOUT;
    int error = 0;
    socklen_t length = sizeof error;
    if (ready < 0 || ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) != 0) return errno;
    if (error != 0) return error;
  }
  const int flags = ::fcntl(fd, F_GETFL);
  ::fcntl(fd, F_SETFL, flags & ~O_NONBLOCK);
  return 0;
}

void set_tcp_options(int fd) {
  const int one = 1;
  const int idle_s = 5;
  const int interval_s = 1;
  const int probes = 3;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  ::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof interval_s);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
}

Error connect_error(const Address& address, int error) {
  std::string hint;
  if (error == ECONNREFUSED || error == ENOENT)
    hint = ": no server is listening there; start sluiced or correct SLUICE_SERVER";
  if (error == EACCES) hint = ": you may not use this socket; ask the administrator of the server";
  if (error == ETIMEDOUT) hint = ": no answer; is the host up and the port open?";
  return Error{error == ETIMEDOUT ? ErrorCode::kTimeout : ErrorCode::kSystem,
               format("connecting to {}: {}{}", address.text(), std::strerror(error), hint)};
}

/// Is somebody accepting on this path? Decides whether a leftover file may be replaced.
bool is_live(const sockaddr_un& path) {
  const Fd probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  return probe.valid() &&
         (::connect(probe.get(), reinterpret_cast<const sockaddr*>(&path), sizeof path) == 0 || errno == EAGAIN);
}

Error in_use(const Address& address) {
  return Error{ErrorCode::kExhausted,
               format("listening on {}: address in use; another server is running there, stop it or choose another "
                      "listen address",
                      address.text())};
}

Result<Fd> listen_unix(const Address& address, unsigned mode) {
  const sockaddr_un path = unix_address(address.path);
  struct stat info{};
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
  ::chmod(address.path.c_str(), mode);
  if (::listen(fd.get(), 128) != 0) return fail(system_error("listening on " + address.text(), errno));
  return fd;
}

}  // namespace

Result<Fd> connect_socket(const Address& address, std::chrono::milliseconds timeout) {
  if (address.kind == Address::Kind::kUnix) {
    const sockaddr_un path = unix_address(address.path);
    Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!fd.valid()) return fail(system_error("creating a UNIX socket", errno));
    const int error = connect_within(fd.get(), reinterpret_cast<const sockaddr*>(&path), sizeof path, timeout);
    if (error != 0) return fail(connect_error(address, error));
    return fd;
  }
  SLUICE_TRY(Addresses list, resolve(address, 0));
  int error = ECONNREFUSED;
  for (const addrinfo* a = list.get(); a != nullptr; a = a->ai_next) {
    Fd fd(::socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, a->ai_protocol));
    if (!fd.valid()) continue;
    error = connect_within(fd.get(), a->ai_addr, a->ai_addrlen, timeout);
    if (error != 0) continue;
    set_tcp_options(fd.get());
    return fd;
  }
  return fail(connect_error(address, error));
}

Result<Fd> listen_socket(const Address& address, unsigned mode) {
  if (address.kind == Address::Kind::kUnix) return listen_unix(address, mode == 0 ? 0600 : mode);
  SLUICE_TRY(Addresses list, resolve(address, AI_PASSIVE));
  int error = EADDRNOTAVAIL;
  for (const addrinfo* a = list.get(); a != nullptr; a = a->ai_next) {
    Fd fd(::socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol));
    if (!fd.valid()) continue;
    const int one = 1;
    ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
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
  out.port = ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(bound).sin6_port
                                               : reinterpret_cast<const sockaddr_in&>(bound).sin_port);
  return out;
}

}  // namespace sluice::transport
