// A word to sleep on. The shim's waits need deadlines on the steady clock and must not depend on
// symbols newer than the oldest glibc we support, which rules out
// std::condition_variable::wait_until.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace sluice::shim {

using Clock = std::chrono::steady_clock;

/// Thread-safe. Usage of a sleeper: seen = value(); check the condition; wait(seen, deadline).
class WakeWord {
 public:
  [[nodiscard]] std::uint32_t value() const noexcept {
    return word_.load(std::memory_order_acquire);
  }
  /// Sleeps while the word still is `seen`, until wake() or the deadline. May return early.
  void wait(std::uint32_t seen, Clock::time_point deadline) noexcept;
  /// Sleeps without a deadline.
  void wait(std::uint32_t seen) noexcept;
  /// Changes the word and wakes every sleeper.
  void wake() noexcept;

 private:
  std::atomic<std::uint32_t> word_{0};
};

}  // namespace sluice::shim
