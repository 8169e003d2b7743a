#include "server/broker/peer_text.h"

#include "common/format.h"

#include <netdb.h>
#include <sys/socket.h>

namespace sluice::server {

std::string peer_text(int socket) {
  sockaddr_storage peer{};
  socklen_t bytes = sizeof peer;
  if (::getpeername(socket, reinterpret_cast<sockaddr*>(&peer), &bytes) != 0) return "nobody";
  if (peer.ss_family == AF_UNIX) {
    ucred who{};
    socklen_t who_bytes = sizeof who;
    if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &who, &who_bytes) != 0) return "unix";
    return format("uid={},pid={}", who.uid, who.pid);
  }
  char host[NI_MAXHOST] = {}, port[NI_MAXSERV] = {};
  if (::getnameinfo(reinterpret_cast<const sockaddr*>(&peer), bytes, host, sizeof host, port,
                    sizeof port, NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    return "unknown";
  return format("{}:{}", host, port);
}

}  // namespace sluice::server
