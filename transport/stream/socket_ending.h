// How the connection of a socket ended, as its calls tell: the host kernel reports an error once,
// to whichever side asks first, and nothing but an end to the other.
#pragma once

#include "transport/stream/byte_stream.h"

#include <atomic>

namespace sluice::transport {

/// Thread-safe.
class SocketEnding {
 public:
  /// send() or recv() failed so.
  void note_error(int error);
  /// recv() found the end; `is_ours`: after we had closed it ourselves.
  void note_end(int fd, bool is_ours);
  /// What a layer above has learned; the first news counts.
  void note(ByteStream::Ending ending);
  [[nodiscard]] ByteStream::Ending get() const { return ending_; }

 private:
  std::atomic<ByteStream::Ending> ending_{ByteStream::Ending::kNone};
};

}  // namespace sluice::transport
