// Strangers at the door of a running session: connections that claim to take the place of one of
// its encrypted data connections. They are dealt with on a thread of their own, so that whatever
// they do or leave undone reaches neither the session nor the link to the broker.
#pragma once

#include "common/fd.h"
#include "server/worker/candidates.h"

#include <atomic>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace sluice::server {

/// add() is thread-safe.
class Prover {
 public:
  /// `on_proved` runs on the thread of this; the frame is the first that was said.
  using OnProved = std::function<void(Candidates::Proved)>;
  Prover(SessionProof proof, OnProved on_proved);
  ~Prover();
  Prover(const Prover&) = delete;
  Prover& operator=(const Prover&) = delete;

  /// Does not wait. To be the connection for records, or that lane.
  void add(Fd socket, std::uint8_t lane, std::uint8_t lane_count);

 private:
  void run();
  void take_new();

  Candidates candidates_;  ///< of the thread
  const OnProved on_proved_;
  Fd bell_;
  std::mutex mutex_;
  struct New {
    Fd socket;
    std::uint8_t lane = 0, lane_count = 0;
  };
  std::deque<New> new_;  ///< guarded by mutex_
  std::atomic<bool> stops_{false};
  std::thread thread_;  ///< last: it uses the rest
};

}  // namespace sluice::server
