// Connected channel ends of every kind, and the helpers that the transport tests share.
#pragma once

#include "transport/shm/memory.h"
#include "transport/stream/byte_stream.h"
#include "transport/transport.h"

#include <array>
#include <memory>
#include <string>
#include <vector>

namespace sluice::transport::testing {

struct Pair {
  std::unique_ptr<Channel> client, server;
};
/// Kinds: loop, unix, tcp, tcp_tls, tcp_resumable, tcp_tls_resumable, shm, ucx_tcp (where UCX is),
/// ucx_rc (with an RDMA device); with the suffix "_faulty" both ends send and deliver in odd
/// pieces, with delays; unix_emulated, tcp_emulated: the client's end is on an emulated link;
/// unix_uring, tcp_uring: the server receives by io_uring.
Pair make_pair(const std::string& kind);
/// The kinds over UCX that this build and this machine have.
std::vector<std::string> ucx_kinds();
/// That end of a connection on a link of its own, as in SLUICE_EMULATE.
std::unique_ptr<ByteStream> make_emulated(Fd socket, const std::string& link);
/// An end of a channel over that memory; `memory_fd` stays the caller's.
std::unique_ptr<Channel> make_shm_end(int memory_fd, Fd socket, shm::Side side);
/// Two connected sockets; `kind` is unix or tcp. TCP goes through listen, connect and accept.
std::array<Fd, 2> make_sockets(const std::string& kind);

/// The client's and the server's stream over such a connection; "tcp_tls": encrypted with a secret,
/// as data connections are.
struct Streams {
  std::unique_ptr<ByteStream> client, server;
};
Streams make_streams(const std::string& kind);

/// Far enough away that a test which reaches it has hung.
Deadline far();

/// A byte stream that both ends can compute: offset i has pattern()[i % size]. The size is a prime,
/// so that lost or swapped pieces of any usual size show.
const std::vector<std::byte>& pattern();
void fill_pattern(std::uint64_t offset, std::span<std::byte> into);

/// Sink that checks the bytes against the pattern.
class PatternSink final : public RecvSink {
 public:
  Status on_bytes(std::span<const std::byte> bytes) override;
  [[nodiscard]] std::uint64_t received() const { return received_; }
  [[nodiscard]] bool is_intact() const { return is_intact_; }

 private:
  std::uint64_t received_ = 0;
  bool is_intact_ = true;
};

/// Polls and waits until the sink has `bytes`; the error of poll(), or kTimeout at far().
Status receive(Channel& channel, PatternSink& sink, std::uint64_t bytes);
/// Polls and waits until poll() fails, and returns that error.
Error receive_to_end(Channel& channel, PatternSink& sink);

}  // namespace sluice::transport::testing
