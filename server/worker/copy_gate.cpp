#include "server/worker/copy_gate.h"

#include <algorithm>
#include <chrono>

namespace sluice::server {
namespace {

using namespace std::chrono_literals;
constexpr std::uint64_t kPatienceNs = 5'000'000;
/// If none of the session's copies ends for so long, they wait for something that is not issued
/// yet: a host function for another thread's copy, say. Then one more is let through.
constexpr auto kStall = 20ms;
/// More is asked for before all is used, so that the answer is there when it is needed.
constexpr std::uint64_t kAskEarlyBytes = turns::kCopyQuantumBytes / 2;
/// The broker is told after so much has been moved.
constexpr std::uint64_t kNewsBytes = turns::kCopyQuantumBytes / 2;

}  // namespace

bool CopyGate::is_free(unsigned index) const {
  return turns::now_ns() < turns_.copy_grant(index).free_until_ns.load();
}

bool CopyGate::may_begin(unsigned index) const {
  return stops_ || queues_[index].begun_bytes < turns_.copy_grant(index).allowance_bytes.load() ||
         is_free(index);
}

void CopyGate::want(unsigned index, std::uint64_t bytes) {
  auto& wanted_bytes = turns_.copy_use(index).wanted_bytes;
  if (wanted_bytes.load() >= bytes) return;
  wanted_bytes = bytes;
  turns_.ring();
}

void CopyGate::before_copy(turns::Way way, unsigned device, std::uint64_t bytes,
                           const std::function<void()>& before_wait) {
  const unsigned index = turns::copy_queue(way, device);
  Lock lock(mutex_);
  if (!may_begin(index)) {
    lock.unlock();
    before_wait();
    lock.lock();
    wait(lock, index, bytes);
  }
  Queue& queue = queues_[index];
  queue.begun_bytes += bytes;
  const std::uint64_t allowance_bytes = turns_.copy_grant(index).allowance_bytes;
  if (queue.begun_bytes + kAskEarlyBytes > allowance_bytes && !is_free(index))
    want(index, std::max(queue.begun_bytes, allowance_bytes) + 1);
}

void CopyGate::wait(Lock& lock, unsigned index, std::uint64_t bytes) {
  Queue& queue = queues_[index];
  std::uint64_t moved_bytes = queue.moved_bytes;
  auto moved_at = std::chrono::steady_clock::now();
  while (!may_begin(index)) {
    const std::uint32_t seen = turns_.copy_changes().load();
    want(index, queue.begun_bytes + bytes);
    if (may_begin(index)) return;
    lock.unlock();
    turns::sleep_while(turns_.copy_changes(), seen, kPatienceNs);
    lock.lock();
    const auto now = std::chrono::steady_clock::now();
    if (queue.moved_bytes != moved_bytes) {
      moved_bytes = queue.moved_bytes;
      moved_at = now;
    }
    if (queue.begun_bytes > queue.moved_bytes && now - moved_at >= kStall) return;
  }
}

void CopyGate::after_copy(turns::Way way, unsigned device, std::uint64_t bytes) {
  const unsigned index = turns::copy_queue(way, device);
  const std::lock_guard lock(mutex_);
  Queue& queue = queues_[index];
  queue.moved_bytes += bytes;
  turns::CopyUse& use = turns_.copy_use(index);
  use.moved_bytes = queue.moved_bytes;
  // What was granted and is moved makes room for others; small copies add up before they are news.
  const bool is_news =
      queue.moved_bytes - queue.told_bytes >= kNewsBytes ||
      (queue.moved_bytes >= turns_.copy_grant(index).allowance_bytes && !is_free(index));
  if (!is_news) return;
  queue.told_bytes = queue.moved_bytes;
  if (!is_free(index)) turns_.ring();
}

void CopyGate::stop() {
  const std::lock_guard lock(mutex_);
  stops_ = true;
}

}  // namespace sluice::server
