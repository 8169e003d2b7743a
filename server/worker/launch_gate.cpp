#include "server/worker/launch_gate.h"

#include <algorithm>

namespace sluice::server {
namespace {

using namespace std::chrono_literals;
constexpr std::uint64_t kPatienceNs = 10'000'000;
/// If nothing completes for so long, what is under way waits for something that is not: a host
/// function for a copy in another stream, say. Then the window lets one more through.
constexpr auto kStall = 4ms;

}  // namespace

void LaunchGate::before_work(unsigned device) {
  const bool is_contended = turns_.is_contended(device);
  // Only this thread writes issued_.
  if (issued_ - marked_ >= (is_contended ? kBundle : kBundleAlone)) mark();
  if (is_contended) keep_window();
  std::unique_lock lock(mutex_);
  // Held and counted under one lock: what completes meanwhile must not give the turn away.
  while (!stops_ && !(held_.contains(device) && turns_.may_compute(device))) {
    const bool is_held = held_.contains(device);
    lock.unlock();
    is_held ? drain() : take(device);
    lock.lock();
  }
  ++issued_;
}

void LaunchGate::take(unsigned device) {
  turns_.add_work(device);
  while (!turns_.begin(device, kPatienceNs)) {
    const std::lock_guard lock(mutex_);
    if (stops_) return turns_.remove_work(device);
  }
  const std::lock_guard lock(mutex_);
  held_.insert(device);
}

void LaunchGate::mark() {
  const std::uint64_t count = issued_;
  if (count == marked_) return;
  marked_ = count;
  after_all_([this, count] { on_completed(count); });
}

void LaunchGate::on_completed(std::uint64_t count) {
  const std::lock_guard lock(mutex_);
  completed_ = std::max(completed_, count);
  if (completed_ == issued_) give_back();
  changed_.notify_all();
}

void LaunchGate::give_back() {
  for (const unsigned device : held_) {
    turns_.end(device);
    turns_.remove_work(device);
  }
  held_.clear();
}

void LaunchGate::drain() {
  mark();
  std::unique_lock lock(mutex_);
  // A turn may end before anything was issued in it.
  if (completed_ == issued_) give_back();
  changed_.wait(lock, [this] { return stops_ || held_.empty(); });
}

void LaunchGate::keep_window() {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, kStall, [this] { return stops_ || issued_ - completed_ < kWindow; });
}

void LaunchGate::rest() {
  mark();
}

void LaunchGate::stop() {
  const std::lock_guard lock(mutex_);
  stops_ = true;
  changed_.notify_all();
}

}  // namespace sluice::server
