// A channel moves bytes between a shim and a worker, in order, over one wire (UNIX socket, TCP,
// memory of one process, memory of one host). It knows nothing of records or CUDA; io_uring and UCX
// will implement the same interface.
#pragma once

#include "common/fd.h"
#include "common/result.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

namespace sluice::transport {

using Clock = std::chrono::steady_clock;
using Deadline = Clock::time_point;
/// Nothing once it is past, also if it lies farther back than a duration can say.
inline Clock::duration left_until(Deadline deadline, Clock::time_point now = Clock::now()) {
  return deadline <= now ? Clock::duration::zero() : deadline - now;
}

/// When committed bytes should reach the peer. kSoon leaves the moment to the channel: at once when
/// the batch has grown to kSoonBytes, else with the next flush; no channel has a timer of its own.
enum class FlushHint { kNone, kSoon, kNow };
inline constexpr std::size_t kSoonBytes = 8 * 1024;

/// What a channel can do; constant over its life.
struct Caps {
  std::size_t reserve_bytes_max = 0;  ///< largest single reserve()
  bool same_host = false;
  bool encrypted = false;
  const char* name = "";  ///< "loop", "unix", "tcp", "shm"
};

/// Takes received bytes; must consume the whole span before it returns (the memory is reused).
class RecvSink {
 public:
  virtual ~RecvSink() = default;
  /// An error stops the receive and is returned by poll().
  virtual Status on_bytes(std::span<const std::byte> bytes) = 0;
};

/// Moves bytes between two ends whose staging memories are not the same memory: ours and that of
/// the peer, which are equally long. Any thread may use it, beside both sides of the channel.
class RemoteStaging {
 public:
  /// An operation that was started.
  using Ticket = std::uint64_t;

  virtual ~RemoteStaging() = default;
  /// Copies [offset, offset + bytes) of our staging memory to the same place of the peer's; returns
  /// at once. The bytes may change again when it is finished.
  [[nodiscard]] virtual Result<Ticket> start_put(std::uint64_t offset, std::size_t bytes) = 0;
  /// The other way.
  [[nodiscard]] virtual Result<Ticket> start_get(std::uint64_t offset, std::size_t bytes) = 0;
  /// Returns when the bytes are where they belong: what is sent on the channel from then on reaches
  /// the peer later than they do. Err: the connection is over.
  [[nodiscard]] virtual Status finish(Ticket ticket) = 0;
};

class ByteStream;

/// Sending side and receiving side may be used by two threads at once; each side is externally
/// locked. Never throws, never raises SIGPIPE.
class Channel {
 public:
  virtual ~Channel() = default;

  // ---- sending
  /// Contiguous space for `bytes` (<= caps().reserve_bytes_max) in the outgoing batch; may flush
  /// and block while the peer is slow. An empty span means the channel is dead (flush() then says
  /// why) or `bytes` is over the maximum.
  [[nodiscard]] virtual std::span<std::byte> reserve(std::size_t bytes) = 0;
  /// The first `bytes` of the last reserve() are now part of the batch.
  virtual void commit(std::size_t bytes, FlushHint hint) = 0;
  /// Hands the whole batch to the peer; blocks while the peer is slow.
  [[nodiscard]] virtual Status flush() = 0;
  /// Bytes committed and not yet flushed.
  [[nodiscard]] virtual std::size_t unflushed_bytes() const = 0;
  /// Appends a payload of any size to the batch without staging it twice and flushes; `bytes` may
  /// be reused on return.
  [[nodiscard]] virtual Status write_through(std::span<const std::byte> bytes) = 0;

  /// While one of these calls waits for the peer to take bytes, it calls this on its thread, every
  /// kBlockedInterval: what watches the connection may be the very thread that sends. It may
  /// receive. Set before the first send.
  virtual void set_while_blocked(std::function<void()> what) { while_blocked_ = std::move(what); }
  static constexpr std::chrono::milliseconds kBlockedInterval{50};

  // ---- receiving
  /// Gives what has arrived to `sink`, at most about `budget_bytes`, without blocking.
  /// >0 = bytes delivered, 0 = nothing there; Err(kPeerClosed) once the peer is gone and everything
  /// was delivered.
  [[nodiscard]] virtual Result<std::size_t> poll(RecvSink& sink, std::size_t budget_bytes) = 0;
  /// Sleeps until bytes can be read, the peer is gone (both true) or the deadline passes (false).
  [[nodiscard]] virtual Result<bool> wait(Deadline deadline) = 0;
  /// Descriptor that polls readable when poll() has something to do; -1 if there is none.
  [[nodiscard]] virtual int wait_fd() const = 0;

  // ---- beside the bytes
  /// Memory that both ends see, for bulk data that the bytes only speak of; empty if this wire has
  /// none. Who writes where and when is up to the ends. The peer may change it at any time: nothing
  /// in it may be parsed in place.
  [[nodiscard]] virtual std::span<std::byte> staging() { return {}; }
  /// The client's, if the wire cannot show one memory to both ends: what lies in staging() must be
  /// put to the peer or got from it. Null: it is one memory, or there is none.
  [[nodiscard]] virtual RemoteStaging* remote_staging() { return nullptr; }
  /// Connections for the same purpose (stream/stream_io.h); empty if this wire has none. A wire has
  /// such memory or lanes, never both.
  [[nodiscard]] virtual std::span<const std::unique_ptr<ByteStream>> lanes() { return {}; }

  [[nodiscard]] virtual Caps caps() const = 0;
  /// Ends both directions and wakes both ends; callable from any thread, more than once. Never
  /// blocks. What was flushed before still reaches the peer, what is unflushed is lost.
  virtual void close() noexcept = 0;
  /// In a forked child: gives up the descriptors without a word to the peer. Nothing else may be
  /// called there.
  virtual void abandon_in_child() noexcept = 0;

 protected:
  void while_blocked() const {
    if (while_blocked_) while_blocked_();
  }

 private:
  std::function<void()> while_blocked_;
};

/// A parsed server address: "unix:/path", "host", "host:port", "[v6]:port", "tcp:host:port".
struct Address {
  enum class Kind { kUnix, kTcp } kind = Kind::kTcp;
  std::string path;        ///< kUnix
  std::string host;        ///< kTcp
  std::uint16_t port = 0;  ///< kTcp
  [[nodiscard]] std::string text() const;
};
inline constexpr std::uint16_t kDefaultPort = 7627;
Result<Address> parse_address(const std::string& text);

/// A connected, close-on-exec, blocking socket; the error names the address and the cause. Of a
/// host with several addresses any will do (tcp_connect.h).
Result<Fd> connect_socket(const Address& address, std::chrono::milliseconds timeout);
/// A listening socket. UNIX: mode 0600 unless `mode` says otherwise; a stale file is replaced, a
/// live one is an error
/// ("address in use"). TCP: SO_REUSEADDR; [::] serves IPv4, too; of a name the first address that
/// can be had; port 0 picks one, `bound_address` tells which.
Result<Fd> listen_socket(const Address& address, unsigned mode);
Result<Address> bound_address(const Address& wanted, int listen_fd);
/// The next client of a listening socket, close-on-exec, blocking and with the options below; waits
/// for one unless `listen_fd` is non-blocking (then Err(kTimeout) if none is there).
Result<Fd> accept_socket(int listen_fd);
/// TCP: no delay, and keepalive that finds a vanished host within about 30 s: no sooner than a
/// server gives up a client that has fallen silent (its grace time), so that a cable which is back
/// in time finds both ends there. UNIX: nothing. connect_socket() and accept_socket() have done
/// this already.
void set_stream_options(int socket_fd);

/// How far away the peer of a connected socket is.
enum class Reach { kUnix, kLoopback, kNetwork };
Reach reach_of(int socket_fd);
/// Does the address say that it is on this host? A name is taken at its word.
bool is_loopback(const Address& address);

/// Wraps a connected stream socket (UNIX or TCP), whose options stay as they are.
std::unique_ptr<Channel> make_socket_channel(Fd socket);
/// Two ends in one process.
struct LoopPair {
  std::unique_ptr<Channel> client, server;
};
LoopPair make_loop_pair();

}  // namespace sluice::transport
