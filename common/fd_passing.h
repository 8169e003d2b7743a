// Descriptors that travel with bytes over UNIX sockets (SCM_RIGHTS), one at a time.
#pragma once

#include "common/fd.h"

#include <sys/types.h>

#include <cstddef>
#include <span>

namespace sluice {

/// As sendmsg() with MSG_NOSIGNAL and `flags`; a `passed_fd` of -1 is none, else it stays open
/// here.
ssize_t send_with_fd(int socket, std::span<const std::byte> bytes, int passed_fd, int flags);

struct ReceivedBytes {
  ssize_t bytes = 0;          ///< as recvmsg() returns, errno with it
  Fd passed;                  ///< the first descriptor that came along; others are closed
  bool is_truncated = false;  ///< the message was longer
};

/// As recvmsg() with `flags`.
ReceivedBytes receive_with_fd(int socket, std::span<std::byte> into, int flags);

}  // namespace sluice
