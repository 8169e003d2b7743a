#include "softgpu/exec/pool.h"

#include "common/format.h"
#include "softgpu/exec/fault.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>

#include <atomic>
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

/// The shared window of one thread: the block's memory, then address space that faults.
class SharedWindow {
 public:
  SharedWindow() {
    base_ = mmap(nullptr, kSharedWindowBytes, PROT_NONE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  }
  ~SharedWindow() {
    if (base_ != MAP_FAILED) munmap(base_, kSharedWindowBytes);
  }
  SharedWindow(const SharedWindow&) = delete;
  SharedWindow& operator=(const SharedWindow&) = delete;

  /// Makes `bytes` usable (whole pages) and nothing behind them; null if the address space is
  /// exhausted.
  std::byte* resize(std::size_t bytes) {
    if (base_ == MAP_FAILED) return nullptr;
    const std::size_t wanted = (bytes + 4095) / 4096 * 4096;
    if (wanted > usable_) mprotect(base_, wanted, PROT_READ | PROT_WRITE);
    if (wanted < usable_)
      mprotect(static_cast<std::byte*>(base_) + wanted, usable_ - wanted, PROT_NONE);
    usable_ = wanted;
    return static_cast<std::byte*>(base_);
  }

 private:
  void* base_ = nullptr;
  std::size_t usable_ = 0;
};

/// One launch being worked on.
struct Grid {
  BlockFunction block;
  const LaunchConfig* config;
  std::uint32_t static_shared_bytes;
  std::uint64_t block_count;
  std::atomic<std::uint64_t> next{0};
  std::atomic<bool> is_stopped{false};
  std::mutex mutex;
  std::condition_variable idle;
  unsigned helpers = 0;  ///< pool threads inside work()
  LaunchResult result;

  void work();
  void stop(LaunchOutcome outcome, std::string detail) {
    std::lock_guard lock(mutex);
    if (!is_stopped.exchange(true)) result = {outcome, std::move(detail)};
  }
};

struct BlockCall {
  BlockFunction block;
  BlockContext* context;
};

void Grid::work() {
  thread_local SharedWindow window;
  const std::uint32_t shared_bytes = static_shared_bytes + config->dynamic_shared_bytes;
  BlockContext context{};
  context.shared = window.resize(shared_bytes);
  if (context.shared == nullptr)
    return stop(LaunchOutcome::kFailed, "no address space for shared memory");
  const Dim3& g = config->grid;
  context.ntid[0] = config->block.x, context.ntid[1] = config->block.y,
  context.ntid[2] = config->block.z;
  context.nctaid[0] = g.x, context.nctaid[1] = g.y, context.nctaid[2] = g.z;
  context.dynamic_shared_bytes = config->dynamic_shared_bytes;
  context.total_shared_bytes = shared_bytes;
  context.params = config->params.data();
  BlockCall call{block, &context};
  while (!is_stopped.load(std::memory_order_relaxed)) {
    const std::uint64_t b = next.fetch_add(1, std::memory_order_relaxed);
    if (b >= block_count) return;
    if (config->is_cancelled && config->is_cancelled())
      return stop(LaunchOutcome::kCancelled, "cancelled");
    context.ctaid[0] = static_cast<std::uint32_t>(b % g.x);
    context.ctaid[1] = static_cast<std::uint32_t>(b / g.x % g.y);
    context.ctaid[2] = static_cast<std::uint32_t>(b / g.x / g.y);
    const KernelFault fault = run_guarded(
        [](void* p) {
          const auto* c = static_cast<BlockCall*>(p);
          c->block(c->context);
        },
        &call);
    if (fault.outcome != LaunchOutcome::kOk)
      return stop(fault.outcome, format("{} in block ({}, {}, {})", fault.detail, context.ctaid[0],
                                        context.ctaid[1], context.ctaid[2]));
  }
}

class Pool {
 public:
  void run(const std::shared_ptr<Grid>& grid) {
    if (grid->block_count == 0) return;
    const std::uint64_t wanted =
        std::min<std::uint64_t>(worker_thread_count(), grid->block_count) - 1;
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

LaunchResult run_grid(BlockFunction block, const LaunchConfig& config,
                      std::uint32_t static_shared_bytes) {
  // Leaked on purpose: its detached threads outlive every static object.
  static Pool* pool = new Pool;
  auto grid = std::make_shared<Grid>();
  grid->block = block;
  grid->config = &config;
  grid->static_shared_bytes = static_shared_bytes;
  grid->block_count = std::uint64_t{config.grid.x} * config.grid.y * config.grid.z;
  pool->run(grid);
  return grid->result;
}

}  // namespace sluice::softgpu
