#include "transport/ucx/plugin/context.h"

#include "common/format.h"

#include <arpa/inet.h>
#include <pthread.h>

namespace sluice::transport::ucx {

Error ucx_error(const char* doing, ucs_status_t status) {
  return {status == UCS_ERR_NO_MEMORY ? ErrorCode::kExhausted : ErrorCode::kSystem,
          format("UCX, {}: {}", doing, ucs_status_string(status))};
}

Result<SocketAddress> socket_address(const std::string& host, std::uint16_t port) {
  SocketAddress out;
  auto& v4 = reinterpret_cast<sockaddr_in&>(out.storage);
  auto& v6 = reinterpret_cast<sockaddr_in6&>(out.storage);
  if (::inet_pton(AF_INET, host.c_str(), &v4.sin_addr) == 1) {
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port);
    out.bytes = sizeof v4;
  } else if (::inet_pton(AF_INET6, host.c_str(), &v6.sin6_addr) == 1) {
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(port);
    out.bytes = sizeof v6;
  } else {
    return fail(ErrorCode::kInvalidArgument, format("\"{}\" is no numeric address", host));
  }
  return out;
}

std::uint16_t port_of(const sockaddr_storage& address) {
  return ntohs(address.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                   : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

ScopedSignalBlock::ScopedSignalBlock() {
  sigset_t all;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before_);
}

ScopedSignalBlock::~ScopedSignalBlock() {
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

}  // namespace sluice::transport::ucx
