// The worker's side of a data connection that can be replaced: while it is cut the session goes on,
// without news of its client; the broker hands over the connection that takes its place, and
// decides when the client has been away for too long. For an encrypted session the broker hands
// over whatever comes; only a connection that has proved the session's key takes any place.
#pragma once

#include "common/fd.h"
#include "server/worker/prover.h"
#include "transport/resume/resumable_stream.h"
#include "transport/transport.h"

#include <atomic>
#include <memory>
#include <optional>
#include <thread>

namespace sluice::server {

/// open() comes first; take() is for one thread. The channel must not be in use any more when this
/// ends.
class Resumption {
 public:
  /// Without the session's secret nothing that is encrypted is taken.
  explicit Resumption(std::optional<transport::tls::SessionSecret> secret = {});
  ~Resumption();
  Resumption(const Resumption&) = delete;
  Resumption& operator=(const Resumption&) = delete;

  std::unique_ptr<transport::Channel> open(std::unique_ptr<transport::ByteStream> first,
                                           bool survives_reset);
  /// Does not wait for the client. Supersedes a connection that came before; what that one already
  /// holds is not lost. An encrypted one does so once it has proved itself.
  void take(Fd socket, bool is_encrypted = false);

 private:
  void take_proved(Candidates::Proved proved);
  void take_stream(std::unique_ptr<transport::ByteStream> next);
  void resume(std::unique_ptr<transport::ByteStream> next);
  void supersede();

  const std::optional<transport::tls::SessionSecret> secret_;
  transport::ResumableStream* stream_ = nullptr;  ///< the channel's
  bool is_encrypted_ = false;
  std::uint64_t newest_attempt_ = 0;  ///< of the encrypted ones
  std::atomic<bool> is_superseded_{false};
  std::thread thread_;
  std::unique_ptr<Prover> prover_;  ///< last: its thread uses the rest
};

}  // namespace sluice::server
