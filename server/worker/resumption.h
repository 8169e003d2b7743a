// The worker's side of a data connection that can be replaced: while it is cut the session goes on,
// without news of its client; the broker hands over the connection that takes its place, and
// decides when the client has been away for too long.
#pragma once

#include "common/fd.h"
#include "transport/resume/resumable_stream.h"
#include "transport/transport.h"

#include <atomic>
#include <memory>
#include <thread>

namespace sluice::server {

/// open() comes first; take() is for one thread. The channel must not be in use any more when this
/// ends.
class Resumption {
 public:
  Resumption() = default;
  ~Resumption();
  Resumption(const Resumption&) = delete;
  Resumption& operator=(const Resumption&) = delete;

  std::unique_ptr<transport::Channel> open(Fd socket, bool survives_reset);
  /// Does not wait for the client. Supersedes a connection that came before; what that one already
  /// holds is not lost.
  void take(Fd socket);

 private:
  void resume(Fd socket);
  void supersede();

  transport::ResumableStream* stream_ = nullptr;  ///< the channel's
  std::atomic<bool> is_superseded_{false};
  std::thread thread_;
};

}  // namespace sluice::server
