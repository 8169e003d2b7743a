#include "softgpu/exec/watch.h"

#include "softgpu/exec/fault.h"

#include <signal.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace sluice::softgpu {

namespace {
constexpr std::chrono::milliseconds kPoll{20};
/// Polls without a grid before the thread sleeps until one comes: back-to-back launches then need
/// no wake-up.
constexpr unsigned kIdlePolls = 50;
}  // namespace

/// One for the process, leaked on purpose: its thread runs until the process ends.
class Watchdog {
 public:
  static Watchdog& instance() {
    static auto* dog = new Watchdog;
    return *dog;
  }

  void add(Watched& grid) {
    const std::lock_guard lock(mutex_);
    grids_.push_back(&grid);
    if (!has_thread_) start();
    if (is_asleep_) changed_.notify_one();
  }
  void remove(Watched& grid) {
    const std::lock_guard lock(mutex_);
    std::erase(grids_, &grid);
  }
  void enter(Watched& grid) {
    const std::lock_guard lock(mutex_);
    grid.threads_.push_back(pthread_self());
  }
  void leave(Watched& grid) {
    const std::lock_guard lock(mutex_);
    std::erase_if(grid.threads_, [](pthread_t t) { return pthread_equal(t, pthread_self()) != 0; });
  }

 private:
  void start() {
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_t thread;
    has_thread_ = pthread_create(
                      &thread, nullptr,
                      [](void* self) -> void* {
                        static_cast<Watchdog*>(self)->serve();
                        return nullptr;
                      },
                      this) == 0;
    if (has_thread_) pthread_detach(thread);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  void serve() {
    unsigned idle_polls = 0;
    std::unique_lock lock(mutex_);
    for (;;) {
      idle_polls = grids_.empty() ? idle_polls + 1 : 0;
      if (idle_polls > kIdlePolls) {
        is_asleep_ = true;
        changed_.wait(lock, [&] { return !grids_.empty(); });
        is_asleep_ = false;
      } else {
        changed_.wait_for(lock, kPoll);
      }
      for (Watched* grid : grids_) look_at(*grid);
    }
  }

  /// A thread may be inside a helper, where the signal is only noted: it is sent until all are out.
  static void look_at(Watched& grid) {
    if (!grid.is_stopped && grid.is_cancelled()) grid.cancel();
    if (!grid.is_stopped) return;
    for (const pthread_t thread : grid.threads_) interrupt_kernel(thread);
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Watched*> grids_;
  bool has_thread_ = false, is_asleep_ = false;
};

Watch::Watch(Watched& grid) : grid_(grid) {
  Watchdog::instance().add(grid);
}
Watch::~Watch() {
  Watchdog::instance().remove(grid_);
}

WatchedThread::WatchedThread(Watched& grid) : grid_(grid) {
  Watchdog::instance().enter(grid);
  allow_interruption(&grid.is_stopped);
}
WatchedThread::~WatchedThread() {
  allow_interruption(nullptr);
  Watchdog::instance().leave(grid_);
}

}  // namespace sluice::softgpu
