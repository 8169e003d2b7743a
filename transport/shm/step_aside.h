// Where two processes land decides what a call costs: a scheduler that wakes the one beside the
// other keeps both on one core, where neither can spin and every message is a switch. The server's
// end, whose threads are its own, moves to another core now and then, and less often if that did
// not help.
#pragma once

#include <sched.h>

#include <cstdint>

namespace sluice::transport::shm {

/// Confined to one thread.
class StepAside {
 public:
  /// A wait begins on the peer's core. True every so often: it is time to move.
  bool is_due() {
    if (++meetings_ < interval_) return false;
    meetings_ = 0;
    interval_ = interval_ < kIntervalMax ? interval_ * 2 : kIntervalMax;
    return true;
  }
  /// Spinning paid: where this end is now is right.
  void note_success() {
    if (++successes_ % kIntervalMin == 0) interval_ = kIntervalMin;
  }

  /// Moves the calling thread to any other core that it may use; it may come back.
  static void move_from(std::uint32_t cpu) {
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0 || cpu >= CPU_SETSIZE) return;
    cpu_set_t others = allowed;
    CPU_CLR(cpu, &others);
    if (CPU_COUNT(&others) == 0 || ::sched_setaffinity(0, sizeof others, &others) != 0) return;
    ::sched_setaffinity(0, sizeof allowed, &allowed);
  }

 private:
  static constexpr std::uint32_t kIntervalMin = 256;
  static constexpr std::uint32_t kIntervalMax = 64 * 1024;
  std::uint32_t meetings_ = 0, successes_ = 0, interval_ = kIntervalMin;
};

}  // namespace sluice::transport::shm
