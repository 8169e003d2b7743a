// Sleeping on a word of shared memory, and waking whoever sleeps there. The bell is rung only if
// somebody said that it sleeps: in the good case a message costs no system call.
#pragma once

#include "transport/shm/layout.h"
#include "transport/transport.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>

namespace sluice::transport::shm {

inline void futex_wake(std::atomic<std::uint32_t>& word) noexcept {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

/// After the change that the sleeper waits for, which must have been a sequentially consistent
/// store: either this sees that somebody sleeps, or the sleeper sees the change.
inline void ring(Bell& bell) noexcept {
  if (bell.is_awaited.load(std::memory_order_seq_cst) == 0) return;
  if (bell.is_awaited.exchange(0, std::memory_order_acq_rel) == 0) return;
  bell.word.fetch_add(1, std::memory_order_release);
  futex_wake(bell.word);
}

/// Wakes in any case.
inline void ring_anyhow(Bell& bell) noexcept {
  bell.word.fetch_add(1, std::memory_order_release);
  futex_wake(bell.word);
}

/// Sleeps unless `is_ready`, at most until the deadline. May return early.
template <class Ready>
void sleep_on(Bell& bell, const Ready& is_ready, Deadline deadline) noexcept {
  const std::uint32_t seen = bell.word.load(std::memory_order_acquire);
  bell.is_awaited.store(1, std::memory_order_seq_cst);
  if (!is_ready()) {
    const auto left = std::chrono::nanoseconds(left_until(deadline)).count();
    if (left > 0) {
      const timespec timeout{static_cast<time_t>(left / 1'000'000'000),
                             static_cast<long>(left % 1'000'000'000)};
      ::syscall(SYS_futex, &bell.word, FUTEX_WAIT, seen, &timeout, nullptr, 0);
    }
  }
  bell.is_awaited.store(0, std::memory_order_relaxed);
}

}  // namespace sluice::transport::shm
