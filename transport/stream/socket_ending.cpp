#include "transport/stream/socket_ending.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>

namespace sluice::transport {
namespace {

bool is_silence(int error) {
  return error == ETIMEDOUT || error == EHOSTUNREACH || error == ENETUNREACH;
}

}  // namespace

void SocketEnding::note_error(int error) {
  // An error is told once, to one side; the other then finds a pipe without an end.
  if (error == EPIPE) return note(ByteStream::Ending::kReset);
  ending_ = is_silence(error) ? ByteStream::Ending::kSilence : ByteStream::Ending::kReset;
}

void SocketEnding::note_end(int fd, bool is_ours) {
  tcp_info info{};
  socklen_t size = sizeof info;
  // Nothing is left of a broken connection; of one that the peer closed, our half is.
  const bool is_broken = !is_ours && ::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 &&
                         info.tcpi_state == TCP_CLOSE;
  note(is_broken ? ByteStream::Ending::kReset : ByteStream::Ending::kOrderly);
}

void SocketEnding::note(ByteStream::Ending ending) {
  ByteStream::Ending none = ByteStream::Ending::kNone;
  ending_.compare_exchange_strong(none, ending);
}

}  // namespace sluice::transport
