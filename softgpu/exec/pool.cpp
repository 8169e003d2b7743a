#include "softgpu/exec/pool.h"

#include "softgpu/exec/grid.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

namespace sluice::softgpu {
namespace {

constexpr std::size_t kWorkerStackBytes = 16 * 1024 * 1024;

class Pool {
 public:
  void run(const std::shared_ptr<Grid>& grid) {
    if (grid->block_count() == 0) return;
    const std::uint64_t wanted =
        std::min<std::uint64_t>(worker_thread_count(), grid->block_count()) - 1;
    if (wanted > 0) {
      std::lock_guard lock(mutex_);
      start_threads();
      for (std::uint64_t k = 0; k < wanted; ++k) grids_.push_back(grid);
      changed_.notify_all();
    }
    grid->work();
    // Offers that nobody took are withdrawn; helpers that did are waited for.
    {
      std::lock_guard lock(mutex_);
      std::erase(grids_, grid);
    }
    std::unique_lock lock(grid->mutex);
    grid->idle.wait(lock, [&] { return grid->helpers == 0; });
  }

 private:
  void start_threads() {
    while (threads_ + 1 < worker_thread_count()) {
      pthread_attr_t attributes;
      pthread_attr_init(&attributes);
      pthread_attr_setstacksize(&attributes, kWorkerStackBytes);
      pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
      sigset_t all;
      sigset_t before;
      sigfillset(&all);
      for (int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) sigdelset(&all, fault);
      pthread_sigmask(SIG_SETMASK, &all, &before);
      pthread_t thread;
      const int error = pthread_create(
          &thread, &attributes,
          [](void* self) -> void* {
            static_cast<Pool*>(self)->serve();
            return nullptr;
          },
          this);
      pthread_sigmask(SIG_SETMASK, &before, nullptr);
      pthread_attr_destroy(&attributes);
      if (error != 0) return;  // the callers do the work themselves
      ++threads_;
    }
  }

  void serve() {
    for (;;) {
      std::shared_ptr<Grid> grid;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return !grids_.empty(); });
        grid = grids_.front();
        grids_.pop_front();
        std::lock_guard inner(grid->mutex);
        ++grid->helpers;
      }
      grid->work();
      std::lock_guard lock(grid->mutex);
      if (--grid->helpers == 0) grid->idle.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Grid>>
      grids_;  // shared: the launcher and the helpers; the last of them frees it
  unsigned threads_ = 0;
};

}  // namespace

unsigned worker_thread_count() {
  static const unsigned count = [] {
    const char* text = std::getenv("SOFTGPU_THREADS");
    const long wanted =
        text != nullptr ? std::strtol(text, nullptr, 10) : sysconf(_SC_NPROCESSORS_ONLN);
    return static_cast<unsigned>(std::min(std::max(wanted, 1l), 256l));
  }();
  return count;
}

LaunchResult run_grid(const CompiledKernel& kernel, const LaunchConfig& config) {
  // Leaked on purpose: its detached threads outlive every static object.
  static Pool* pool = new Pool;
  const auto grid = std::make_shared<Grid>(kernel, config);
  const Watch watch(*grid);
  pool->run(grid);
  return grid->result();
}

}  // namespace sluice::softgpu
