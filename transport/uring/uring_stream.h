// A socket whose receiving side is io_uring's: one request stays armed and fills buffers of ours
// as bytes arrive (multishot receive), so that a message costs one system call, the wait, where a
// socket needs three. For the server; a container's seccomp profile often forbids it.
#pragma once

#include "common/fd.h"
#include "transport/stream/byte_stream.h"

#include <memory>

namespace sluice::transport::uring {

/// Which threads receive: one, the one that calls make_uring_stream() (SINGLE_ISSUER and
/// DEFER_TASKRUN where the kernel has them), or any, one at a time.
enum class Receivers { kOneThread, kAnyThread };

/// Takes `socket` only on success. Err(kSystem): the kernel is too old for it or does not allow it;
/// nothing was received, the socket is as it was. Sending is as of any socket.
Result<std::unique_ptr<ByteStream>> make_uring_stream(Fd&& socket, Receivers receivers);

/// The same, or, with one line in the log, the socket without it.
std::unique_ptr<ByteStream> make_uring_or_socket_stream(Fd socket, Receivers receivers);

}  // namespace sluice::transport::uring
