#include "server/worker/launch_gate.h"

#include <algorithm>

namespace sluice::server {
namespace {

using namespace std::chrono_literals;
constexpr std::uint64_t kPatienceNs = 10'000'000;
/// If nothing completes for so long, what is under way waits for something that is not: a host
/// function for a copy in another stream, say. Then the window lets one more through.
constexpr auto kStall = 4ms;

scheduler::Time now() {
  return scheduler::Time(turns::now_ns());
}

}  // namespace

void LaunchGate::before_work(unsigned device, std::uint64_t cost_key) {
  const bool is_contended = turns_.is_contended(device);
  Lock lock(mutex_);
  if (bundles_.is_full_for(cost_key, turns_.window(device) / 4,
                           is_contended ? kBundle : kBundleAlone))
    mark(lock);
  if (is_contended) keep_window(lock, device, cost_key);
  // Held and counted under one lock: what completes meanwhile must not give the turn away.
  while (!stops_ && !(held_.contains(device) && turns_.may_compute(device)))
    held_.contains(device) ? drain(lock) : take(lock, device);
  bundles_.add(cost_key, now());
}

void LaunchGate::take(Lock& lock, unsigned device) {
  lock.unlock();
  turns_.add_work(device);
  while (!turns_.begin(device, kPatienceNs)) {
    lock.lock();
    if (stops_) return turns_.remove_work(device);
    lock.unlock();
  }
  lock.lock();
  held_.insert(device);
}

void LaunchGate::mark(Lock& lock) {
  if (!bundles_.close()) return;
  lock.unlock();
  after_all_([this] { on_completed(); });
  lock.lock();
}

void LaunchGate::on_completed() {
  const std::lock_guard lock(mutex_);
  bundles_.complete(now());
  if (bundles_.count() == 0) give_back();
  changed_.notify_all();
}

void LaunchGate::give_back() {
  for (const unsigned device : held_) {
    turns_.end(device);
    turns_.remove_work(device);
  }
  held_.clear();
}

void LaunchGate::drain(Lock& lock) {
  mark(lock);
  // A turn may end before anything was issued in it.
  if (bundles_.count() == 0) give_back();
  changed_.wait(lock, [this] { return stops_ || held_.empty(); });
}

/// One command may always be under way, whatever it costs.
void LaunchGate::keep_window(Lock& lock, unsigned device, std::uint64_t cost_key) {
  const auto has_room = [&] {
    return stops_ || bundles_.count() == 0 ||
           (bundles_.count() < kWindow &&
            bundles_.under_way() + bundles_.estimate(cost_key) <= turns_.window(device));
  };
  const auto end = std::chrono::steady_clock::now() + kStall;
  while (!has_room()) {
    if (bundles_.asked() == 0)
      mark(lock);  // what is waited for must be asked for
    else if (changed_.wait_until(lock, end) == std::cv_status::timeout)
      return;
  }
}

void LaunchGate::rest() {
  Lock lock(mutex_);
  mark(lock);
}

void LaunchGate::stop() {
  const std::lock_guard lock(mutex_);
  stops_ = true;
  changed_.notify_all();
}

}  // namespace sluice::server
