// The worker's side of data connections that can be replaced: while one is cut the session goes on,
// without news of its client; the broker hands over the connections that take their places, and
// decides when the client has been away for too long. For an encrypted session the broker hands
// over whatever comes; only a connection that has proved the session's key, and which of its
// connections it is, takes any place.
#pragma once

#include "common/fd.h"
#include "server/link.h"
#include "server/worker/prover.h"
#include "transport/resume/resumable_stream.h"
#include "transport/stream/byte_stream.h"
#include "transport/transport.h"

#include <atomic>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

namespace sluice::server {

/// open() comes first; take() is for one thread. The channel must not be in use any more when this
/// ends.
class Resumption {
 public:
  /// Without the session's proof nothing that is encrypted is taken.
  explicit Resumption(std::optional<SessionProof> proof = {}) : proof_(proof) {}
  ~Resumption();
  Resumption(const Resumption&) = delete;
  Resumption& operator=(const Resumption&) = delete;

  std::unique_ptr<transport::Channel> open(std::unique_ptr<transport::ByteStream> records,
                                           transport::Lanes lanes, bool survives_reset);
  /// Does not wait for the client. Supersedes a connection that came before; what that one already
  /// holds is not lost. An encrypted one does so once it has proved itself.
  void take(Fd socket, const link::ResumeData& of = {});

 private:
  /// The connection for records, or a lane.
  struct Line {
    transport::ResumableStream* stream = nullptr;  ///< the channel's
    std::uint64_t newest_attempt = 0;              ///< of the encrypted ones
    std::atomic<bool> is_superseded{false};
    std::thread thread;
  };
  std::unique_ptr<transport::ByteStream> add(std::unique_ptr<transport::ByteStream> connection,
                                             bool survives_reset);
  void take_proved(Candidates::Proved proved);
  void take_stream(Line& line, std::unique_ptr<transport::ByteStream> next);
  void resume(Line& line, std::unique_ptr<transport::ByteStream> next);
  static void supersede(Line& line);

  const std::optional<SessionProof> proof_;
  bool is_encrypted_ = false;
  std::vector<std::unique_ptr<Line>> lines_;
  std::unique_ptr<Prover> prover_;  ///< last: its thread uses the rest
};

}  // namespace sluice::server
