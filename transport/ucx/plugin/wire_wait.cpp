// How a thread waits for a wire.
#include "transport/ucx/plugin/wire.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

namespace sluice::transport::ucx {

/// The lock is free in between: another thread may have something to send.
bool Wire::spin(Lock& lock, Deadline deadline, const std::function<bool()>& is_due) {
  const Deadline end = std::min(deadline, Clock::now() + shm::SpinPolicy::kSpin);
  do {
    lock.unlock();
    __builtin_ia32_pause();
    lock.lock();
    progress();
    if (is_due()) return true;
  } while (Clock::now() < end);
  return false;
}

void Wire::sleep(Lock& lock, Bell& bell, Deadline deadline) {
  const auto left = std::min<Clock::duration>(left_until(deadline), kSleepMax);
  const timespec timeout{0, std::chrono::nanoseconds(left).count()};
  bell.await();
  lock.unlock();
  pollfd p[2] = {{event_fd_, POLLIN, 0}, {bell.fd(), POLLIN, 0}};
  const int ready = ::ppoll(p, 2, &timeout, nullptr);
  lock.lock();
  bell.awake();
  if (ready == 0 && left == kSleepMax) look_at_life_line();
}

bool Wire::wait_for(Lock& lock, Bell& bell, Deadline deadline,
                    const std::function<bool()>& is_due) {
  progress();
  if (is_due()) return true;
  if (Clock::now() >= deadline) return false;
  if (spin_.may_spin(0, 1)) {
    if (spin(lock, deadline, is_due)) {
      spin_.succeeded();
      spin_.note_traffic();
      return true;
    }
    spin_.failed();
  }
  for (;;) {
    progress();
    if (is_due()) {
      spin_.note_traffic();
      return true;
    }
    if (Clock::now() >= deadline) break;
    const auto armed = ucp_worker_arm(worker_);
    if (armed == UCS_ERR_BUSY) continue;
    // Over verbs an event that comes between the last look and the arming wakes nobody (measured):
    // look again.
    if (armed == UCS_OK && progress()) continue;
    sleep(lock, bell, deadline);
  }
  spin_.note_quiet();
  return false;
}

void Wire::look_at_life_line() {
  if (!life_line_.valid() || gone_since_) return;
  char byte = 0;
  const ssize_t got = ::recv(life_line_.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  if (got > 0 || (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))) return;
  gone_since_ = Clock::now();
}

}  // namespace sluice::transport::ucx
