// Connections that somebody handed in for an encrypted session. Whoever is at their other ends has
// named the session and proved nothing: each has a moment to prove the session's key in a TLS
// handshake, and until one has, none of them means anything.
#pragma once

#include "common/fd.h"
#include "common/result.h"
#include "protocol/bootstrap.h"
#include "server/link.h"
#include "transport/stream/byte_stream.h"
#include "transport/tls/engine.h"

#include <poll.h>

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace sluice::server {

/// What both ends of the session's connections know.
struct SessionProof {
  std::uint64_t session_id = 0;
  wire::SessionKey key{};
};
SessionProof proof_of(const link::Start& start);

/// For one thread.
class Candidates {
 public:
  explicit Candidates(const SessionProof& proof) : proof_(proof) {}

  /// The one whose other end knows the key.
  struct Proved {
    std::unique_ptr<transport::ByteStream> stream;
    link::AttachData attach;           ///< as it was added; its lanes are proved, too
    std::optional<wire::Frame> frame;  ///< what it said first, if that was awaited
  };

  /// To be a data connection, of this kind. Too many: the oldest goes.
  Status add(Fd socket, const link::AttachData& attach) {
    return add(std::move(socket), attach, {});
  }
  /// Proved only once it has said what it is for, in a frame.
  Status add_with_frame(Fd socket, std::uint8_t lane, std::uint8_t lane_count) {
    return add(std::move(socket), {.lane = lane, .lane_count = lane_count},
               std::vector<std::byte>());
  }

  /// Sleeps until one of them or `other_fd` has something to say, one is late, or `until`; true:
  /// `other_fd` has.
  Result<bool> wait(int other_fd, transport::Deadline until = transport::Deadline::max());
  /// After wait(): one that has proved itself, if there is one by now. Those that failed are
  /// closed.
  std::optional<Proved> advance();

 private:
  struct Candidate {
    Fd socket;
    std::unique_ptr<transport::tls::Engine> engine;
    transport::Deadline deadline;
    link::AttachData attach;
    std::optional<std::vector<std::byte>> received;  ///< of the frame, if one is awaited
    bool is_known = false;                           ///< it has the key
    std::optional<wire::Frame> frame = {};
  };
  Status add(Fd socket, const link::AttachData& attach,
             std::optional<std::vector<std::byte>> received);
  static Result<bool> advance(Candidate& one);
  static Result<bool> receive_frame(Candidate& one);

  void note_refused(const std::string& why);

  const SessionProof proof_;
  std::deque<Candidate> waiting_;
  int refused_ = 0;  ///< since the log last said so
  transport::Deadline quiet_until_{};
  std::vector<pollfd> polled_;  ///< the other descriptor, then the waiting ones in order
};

}  // namespace sluice::server
