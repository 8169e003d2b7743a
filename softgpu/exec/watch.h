// The watchdog: polls whether running grids are cancelled and drives the threads that work on a
// cancelled one out of their kernels, however endless its loops are.
#pragma once

#include <pthread.h>

#include <atomic>
#include <vector>

namespace sluice::softgpu {

class Watched {
 public:
  virtual ~Watched() = default;
  std::atomic<bool> is_stopped{false};

 private:
  friend class Watchdog;
  [[nodiscard]] virtual bool is_cancelled() const = 0;
  virtual void cancel() = 0;  ///< sets is_stopped
  std::vector<pthread_t> threads_;
};

/// While it lives, the watchdog polls the grid.
class Watch {
 public:
  explicit Watch(Watched& grid);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

 private:
  Watched& grid_;
};

/// While it lives, this thread works on the grid and may be driven out of a kernel.
class WatchedThread {
 public:
  explicit WatchedThread(Watched& grid);
  ~WatchedThread();
  WatchedThread(const WatchedThread&) = delete;
  WatchedThread& operator=(const WatchedThread&) = delete;

 private:
  Watched& grid_;
};

}  // namespace sluice::softgpu
