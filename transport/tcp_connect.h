// Connecting to one of several addresses of a host: all of them count, and a silent one costs a
// moment, not the time limit.
#pragma once

#include "common/fd.h"
#include "transport/transport.h"

#include <sys/socket.h>

#include <chrono>
#include <span>

namespace sluice::transport {

struct TcpTarget {
  sockaddr_storage address{};
  socklen_t bytes = 0;
};

struct TcpConnected {
  Fd socket;      ///< blocking, close-on-exec; invalid: none of them could be reached
  int error = 0;  ///< then: why, by the most telling of the attempts
};

/// Tries the targets in turn, IPv6 and IPv4 alternating in the order given; each next one when the
/// one before has failed or not answered within kHeadStart (as RFC 8305 has it). The first that
/// answers is taken.
inline constexpr std::chrono::milliseconds kHeadStart{250};
TcpConnected connect_any(std::span<const TcpTarget> targets, Deadline deadline);

}  // namespace sluice::transport
