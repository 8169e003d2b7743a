#include "shim/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace sluice::shim {
namespace {

static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t));

void futex(const std::atomic<std::uint32_t>& word, int operation, std::uint32_t value,
           const timespec* timeout) noexcept {
  ::syscall(SYS_futex, &word, operation | FUTEX_PRIVATE_FLAG, value, timeout, nullptr, 0);
}

}  // namespace

void WakeWord::wait(std::uint32_t seen, Clock::time_point deadline) noexcept {
  const auto now = Clock::now();
  if (deadline <= now) return;
  const auto left = deadline - now;
  const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(left).count();
  timespec timeout{};
  timeout.tv_sec = static_cast<time_t>(ns / 1'000'000'000);
  timeout.tv_nsec = static_cast<long>(ns % 1'000'000'000);
  futex(word_, FUTEX_WAIT, seen, &timeout);
}

void WakeWord::wait(std::uint32_t seen) noexcept {
  futex(word_, FUTEX_WAIT, seen, nullptr);
}

void WakeWord::wake() noexcept {
  word_.fetch_add(1, std::memory_order_acq_rel);
  futex(word_, FUTEX_WAKE, INT_MAX, nullptr);
}

}  // namespace sluice::shim
