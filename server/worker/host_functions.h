// Host functions of a client's streams: the driver's stream waits in a function of ours until the
// shim says that the application's has run, or the session ends.
#pragma once

#include "server/worker/worker.h"

#include <condition_variable>
#include <mutex>
#include <set>

namespace sluice::server {

/// Thread-safe.
struct Worker::HostFunctions {
  /// Driver thread.
  void wait(std::uint64_t token) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return is_over || done.erase(token) > 0; });
  }
  void finish(std::uint64_t token) {
    const std::lock_guard lock(mutex);
    if (running.erase(token) == 0) return;  // a token that nobody waits for
    done.insert(token);
    changed.notify_all();
  }
  void drop(std::uint64_t token) {
    const std::lock_guard lock(mutex);
    running.erase(token);
  }
  void end() {
    const std::lock_guard lock(mutex);
    is_over = true;
    changed.notify_all();
  }

  std::mutex mutex;
  std::condition_variable changed;
  std::set<std::uint64_t> running, done;
  bool is_over = false;
};

}  // namespace sluice::server
