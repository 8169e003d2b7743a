// Bytes in order over one connection, as they are or encrypted: what a stream channel, a bulk lane
// and the bootstrap frames are built on, so that none of them knows which it is.
#pragma once

#include "common/fd.h"
#include "common/result.h"
#include "transport/transport.h"

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace sluice::transport {

/// Never blocks but in wait(), never throws, never raises SIGPIPE. Sending side and receiving side
/// may be used by two threads at once; each side is externally locked.
class ByteStream {
 public:
  virtual ~ByteStream() = default;

  /// Takes what fits now; 0 = nothing fits. Err(kPeerClosed): the connection is gone.
  [[nodiscard]] virtual Result<std::size_t> send_some(std::span<const std::byte> bytes) = 0;
  /// After a send_some(): how many of the bytes that it did not take may reach the peer all the
  /// same (a cipher cannot take back what it has made of them). They must be offered first again.
  [[nodiscard]] virtual std::size_t bytes_ahead() { return 0; }
  /// Gives what is there; 0 = nothing is. Err(kPeerClosed): the peer is gone and everything that it
  /// had sent was given.
  [[nodiscard]] virtual Result<std::size_t> receive_some(std::span<std::byte> into) = 0;

  enum class For { kReceive, kSend };
  /// Sleeps until receive_some() or send_some() can do something (they may find nothing all the
  /// same) or the deadline passes (false). A sender also wakes when the peer is gone.
  [[nodiscard]] virtual Result<bool> wait(For what, Deadline deadline) = 0;
  /// Descriptor of the connection. It polls readable when bytes arrive, but a stream may hold bytes
  /// that it has already taken from it: receive until there is nothing before sleeping on it.
  [[nodiscard]] virtual int fd() const = 0;

  struct Kind {
    bool same_host = false;
    bool encrypted = false;
    const char* name = "";  ///< "unix", "tcp", "tcp+tls"
  };
  [[nodiscard]] virtual Kind kind() const = 0;

  /// How the connection ended, once a call has failed.
  enum class Ending {
    kNone,
    kOrderly,  ///< the peer closed it
    kReset,    ///< the peer, or somebody on the way, refused to go on
    kSilence,  ///< nothing came back for too long
  };
  [[nodiscard]] virtual Ending ending() const { return Ending::kOrderly; }

  /// Memory of the stream's own, at least kLentBytesMin: bytes that were put at its beginning and
  /// are then sent are not copied. Good until more was sent than lies in it. Empty: it has none.
  [[nodiscard]] virtual std::span<std::byte> send_buffer() { return {}; }
  static constexpr std::size_t kLentBytesMin = 64 * 1024;

  /// Ends both directions and wakes who sleeps; any thread, more than once. Never blocks.
  virtual void close() noexcept = 0;
  /// In a forked child: gives up the descriptor without a word to the peer.
  virtual void abandon_in_child() noexcept = 0;
};

/// A connected stream socket (UNIX or TCP), whose options stay as they are.
std::unique_ptr<ByteStream> make_socket_stream(Fd socket);
/// poll(2) on the descriptor for the wait of a stream that has nothing else to look at.
Result<bool> wait_on(int fd, ByteStream::For what, Deadline deadline);

/// Connections for bulk data beside a channel, all to the same peer.
using Lanes = std::vector<std::unique_ptr<ByteStream>>;

/// A channel over such a stream; closing it closes the lanes.
std::unique_ptr<Channel> make_stream_channel(std::unique_ptr<ByteStream> stream, Lanes lanes = {});

}  // namespace sluice::transport
