// The pipeline's service thread: hands over records that nobody flushed, reads while pushes are
// expected and nobody else reads, says goodbye. It sleeps without a deadline when there is nothing
// to do.
#include "common/log.h"
#include "common/quiet_thread.h"
#include "protocol/session.h"
#include "shim/pipeline.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>

namespace sluice::shim {
namespace {

/// After this many rounds of kFlushDelay without work the thread sleeps deeply; until then nobody
/// pays for waking it.
constexpr int kIdleRoundsMax = 20;
constexpr std::chrono::milliseconds kReadTick{1};
constexpr std::chrono::milliseconds kReadTickLong{5};
constexpr int kShortTicksMax = 200;

Clock::time_point at_ns(std::int64_t ns) {
  return Clock::time_point(
      std::chrono::duration_cast<Clock::duration>(std::chrono::nanoseconds(ns)));
}

}  // namespace

void Pipeline::nudge_service() noexcept {
  if (!has_service_.load(std::memory_order_acquire)) {
    start_service();
  } else if (service_sleeps_.load()) {
    service_word_.wake();
  }
}

void Pipeline::start_service() noexcept {
  static std::mutex start_mutex;
  std::lock_guard lock(start_mutex);
  if (has_service_.load() || stops_.load()) return;
  const auto thread = start_quiet_thread(
      "sluice-service",
      [](void* self) -> void* {
        static_cast<Pipeline*>(self)->serve();
        return nullptr;
      },
      this);
  if (!thread) {
    SLUICE_LOG_ERROR("session", "The shim's service thread cannot be started: {}",
                     thread.error().message);
    return;
  }
  service_ = *thread;
  has_service_.store(true, std::memory_order_release);
}

void Pipeline::serve() noexcept {
  // The kernel may delay a sleeper by its timer slack (50 us by default), as long as our whole
  // delay.
  ::prctl(PR_SET_TIMERSLACK, 1000ul, 0, 0, 0);
  int quiet_rounds = 0;
  std::chrono::microseconds patience = kFlushDelay;
  while (!stops_.load()) {
    const std::uint32_t seen = service_word_.value();
    if (says_goodbye_.load()) {
      send_goodbye();
      stops_ = true;
      goodbye_word_.wake();
      return;
    }
    const bool is_left_pending = flush_overdue();
    const bool has_read = read_expected();
    if (expects_pushes()) check_life_line();
    if (expects_quiet_.load() == Quiet::kNow) be_quiet();
    quiet_rounds = is_left_pending || has_read ? 0 : quiet_rounds + 1;
    if (is_left_pending) {
      // What is overdue belongs to somebody who appends, or is held back by a slow worker: looking
      // all the time would take the processor from both.
      const auto now = Clock::now();
      const auto due = at_ns(oldest_ns_.load()) + kFlushDelay;
      if (due > now || has_read) patience = kFlushDelay;
      service_word_.wait(seen, due > now ? due : now + patience);
      patience = std::min<std::chrono::microseconds>(patience * 2, kReadTick);
    } else if (has_read || (!expects_pushes() && quiet_rounds < kIdleRoundsMax)) {
      service_word_.wait(seen, Clock::now() + kFlushDelay);
    } else {
      rest(seen, quiet_rounds);
    }
  }
}

void Pipeline::rest(std::uint32_t seen, int quiet_rounds) noexcept {
  bool is_quiet = false;
  service_sleeps_.store(true);
  const bool has_nothing = unflushed_records_.load() == 0 && !says_goodbye_.load() &&
                           !stops_.load() && expects_quiet_.load() != Quiet::kNow;
  if (has_nothing && expects_pushes()) {
    service_word_.wait(seen,
                       Clock::now() + (quiet_rounds < kShortTicksMax ? kReadTick : kReadTickLong));
  } else if (has_nothing && expects_quiet_.load() == Quiet::kLater) {
    is_quiet = rest_until_quiet(seen);
  } else if (has_nothing) {
    service_word_.wait(seen);
  }
  service_sleeps_.store(false);
  if (is_quiet) be_quiet();
}

void Pipeline::be_quiet() noexcept {
  expects_quiet_ = Quiet::kNever;
  if (!is_lost()) pushes_.on_quiet();
}

/// Whether nothing came for as long as that.
bool Pipeline::rest_until_quiet(std::uint32_t seen) noexcept {
  const auto deadline = Clock::now() + kQuietTime;
  while (service_word_.value() == seen && Clock::now() < deadline)
    service_word_.wait(seen, deadline);
  return service_word_.value() == seen;
}

void Pipeline::expect_quiet(Quiet when) noexcept {
  Quiet known = expects_quiet_.load(std::memory_order_relaxed);
  while (known < when)
    if (expects_quiet_.compare_exchange_weak(known, when)) return nudge_service();
}

bool Pipeline::flush_overdue() noexcept {
  if (is_lost() || unflushed_records_.load() == 0) return false;
  if (Clock::now() < at_ns(oldest_ns_.load()) + kFlushDelay) return true;
  // Whoever holds the lock is appending or flushing already.
  if (send_mutex_.try_lock()) {
    if (unflushed_records_.load(std::memory_order_relaxed) != 0 && !is_lost()) flush_locked();
    send_mutex_.unlock();
  }
  return unflushed_records_.load() != 0;
}

/// For everybody else's sends the service thread reads and watches meanwhile, if it is awake; for
/// its own nobody does, and the peer may wait for us, or never come back.
void Pipeline::watch_while_blocked() noexcept {
  if (!has_service_.load(std::memory_order_acquire) ||
      ::pthread_equal(::pthread_self(), service_) == 0)
    return nudge_service();  // it sleeps if nothing was expected when this send began
  read_expected();
  check_life_line();
}

bool Pipeline::expects_pushes() const noexcept {
  return !is_lost() && (expected_.load() > 0 || is_flushing_.load());
}

bool Pipeline::read_expected() noexcept {
  if (!expects_pushes() || !receive_mutex_.try_lock()) return false;
  const bool has_read = read_some();
  receive_mutex_.unlock();
  hand_over();
  return has_read;
}

void Pipeline::send_goodbye() noexcept {
  if (is_lost()) return;
  const wire::goodbye goodbye{};
  append({.opcode = wire::goodbye::kOpcode,
          .context = 0,
          .fixed = detail::as_bytes(goodbye),
          .blobs = {}},
         nullptr);
  flush();
}

void Pipeline::finish(std::chrono::milliseconds limit) noexcept {
  if (is_lost() || says_goodbye_.exchange(true)) return;
  if (has_service_.load()) {
    // Sending may block while the server is slow: the service thread does it, and exit() waits only
    // so long.
    const std::uint32_t seen = goodbye_word_.value();
    service_word_.wake();
    if (!stops_.load()) goodbye_word_.wait(seen, Clock::now() + limit);
  } else {
    // Without a service thread nothing is unread or unsent: one small record cannot block.
    send_goodbye();
  }
  stops_ = true;
  is_lost_ = true;
  service_word_.wake();
}

void Pipeline::abandon_in_child() noexcept {
  is_lost_ = true;
  stops_ = true;
  channel_->abandon_in_child();
  life_line_.abandon_in_child();
}

}  // namespace sluice::shim
