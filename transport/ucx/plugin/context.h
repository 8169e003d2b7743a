// The process's UCX context, and small owners of what UCX hands out.
#pragma once

#include "common/result.h"
#include "transport/ucx/plugin.h"

#include <netinet/in.h>
#include <signal.h>
#include <ucp/api/ucp.h>

namespace sluice::transport::ucx {

Error ucx_error(const char* doing, ucs_status_t status);

/// A numeric address and a port, as UCX takes it.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t bytes = 0;
  [[nodiscard]] ucs_sock_addr_t view() const {
    return {reinterpret_cast<const sockaddr*>(&storage), bytes};
  }
};
Result<SocketAddress> socket_address(const std::string& host, std::uint16_t port);
std::uint16_t port_of(const sockaddr_storage& address);

/// While it lives, threads made by this one block all signals: UCX makes one, and signals belong to
/// the application's.
class ScopedSignalBlock {
 public:
  ScopedSignalBlock();
  ~ScopedSignalBlock();
  ScopedSignalBlock(const ScopedSignalBlock&) = delete;
  ScopedSignalBlock& operator=(const ScopedSignalBlock&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace sluice::transport::ucx
