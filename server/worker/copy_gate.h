// Holds the session's copies from and to the host to its part of the way while others use it, too
// (server/turns/copy_queue.h). Like a turn (decision 0012), a copy that must wait holds the decode
// thread: what comes over the network behind it stays there.
#pragma once

#include "server/worker/turns.h"

#include <array>
#include <functional>
#include <mutex>

namespace sluice::server {

class CopyGate {
 public:
  /// `turns` outlives this.
  explicit CopyGate(Turns& turns) : turns_(turns) {}

  /// Decode thread, before a copy is issued: waits until it may be. `before_wait` runs first if it
  /// must wait. after_copy() must follow.
  void before_copy(turns::Way way, unsigned device, std::uint64_t bytes,
                   const std::function<void()>& before_wait);
  /// Any thread: the copy is over, well or not.
  void after_copy(turns::Way way, unsigned device, std::uint64_t bytes);
  /// Any thread: waits no more, for the session is over.
  void stop();

 private:
  struct Queue {
    std::uint64_t begun_bytes = 0, moved_bytes = 0;
    std::uint64_t told_bytes = 0;  ///< of moved_bytes, when the broker was made to look
  };
  using Lock = std::unique_lock<std::mutex>;
  [[nodiscard]] bool may_begin(unsigned index) const;
  [[nodiscard]] bool is_free(unsigned index) const;
  void want(unsigned index, std::uint64_t bytes);
  void wait(Lock& lock, unsigned index, std::uint64_t bytes);

  Turns& turns_;
  std::mutex mutex_;  ///< guards what follows
  std::array<Queue, turns::kCopyQueuesMax> queues_{};
  bool stops_ = false;
};

}  // namespace sluice::server
