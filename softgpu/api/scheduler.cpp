#include "softgpu/api/scheduler.h"

#include "softgpu/api/strict.h"
#include "softgpu/exec/turn.h"

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

namespace sluice::softgpu {
namespace {

constexpr unsigned kThreadsMax = 512;
constexpr std::size_t kStackBytes = 16 * 1024 * 1024;

/// A thread without work sleeps on a semaphore of its own: in glibc 2.27 to 2.40,
/// pthread_cond_signal() with several waiters can lose a wake-up (its bug 25847), and the operation
/// would wait for ever. (libstdc++ 12's semaphores can, too: its bug 104928.)
class Alarm {
 public:
  Alarm() { ::sem_init(&semaphore_, 0, 0); }
  ~Alarm() { ::sem_destroy(&semaphore_); }
  Alarm(const Alarm&) = delete;
  Alarm& operator=(const Alarm&) = delete;
  void ring() { ::sem_post(&semaphore_); }
  void wait() {
    while (::sem_wait(&semaphore_) != 0) {
    }
  }

 private:
  sem_t semaphore_{};
};

struct Pool {
  std::mutex mutex;
  std::condition_variable finished;  ///< only ever notify_all()
  std::deque<OperationPtr> ready;
  std::vector<Alarm*> sleepers;  ///< those not woken; the last slept last
  unsigned threads = 0;
  unsigned idle = 0;  ///< sleepers, and those that are waking
};

/// Leaked on purpose: its threads run until the process ends.
Pool& pool() {
  static Pool* instance = new Pool;
  return *instance;
}

void grow(Pool& p, unsigned free_threads);

/// Called with the lock held.
void make_ready(Pool& p, const OperationPtr& operation) {
  const auto* hooks = turn_hooks();
  if (operation->device >= 0 && hooks != nullptr)
    hooks->add_work(hooks->user, static_cast<unsigned>(operation->device));
  p.ready.push_back(operation);
}

/// For one operation that became ready. Called with the lock held.
void wake_one(Pool& p) {
  if (p.sleepers.empty()) return;
  p.sleepers.back()->ring();
  p.sleepers.pop_back();
}

void run(Pool& p, const OperationPtr& operation, std::unique_lock<std::mutex>& lock) {
  lock.unlock();
  if (is_strict())
    if (const std::uint64_t delay_us = strict_random().delay_us(); delay_us > 0)
      std::this_thread::sleep_for(std::chrono::microseconds(delay_us));
  operation->work();
  operation->work = nullptr;
  const std::int64_t now = std::chrono::steady_clock::now().time_since_epoch().count();
  lock.lock();
  operation->finished_ns = now;
  operation->is_done = true;
  for (const OperationPtr& next : operation->successors)
    if (--next->waiting_for == 0) {
      make_ready(p, next);
      wake_one(p);
      // This thread takes one of them; a host function among them may wait for another.
      grow(p, p.idle + 1);
    }
  operation->successors.clear();
  const auto* hooks = turn_hooks();
  if (operation->device >= 0 && hooks != nullptr)
    hooks->remove_work(hooks->user, static_cast<unsigned>(operation->device));
  p.finished.notify_all();
}

void* serve(void*) {
  Pool& p = pool();
  Alarm alarm;
  std::unique_lock lock(p.mutex);
  for (;;) {
    while (p.ready.empty()) {
      ++p.idle;
      p.sleepers.push_back(&alarm);
      lock.unlock();
      alarm.wait();
      lock.lock();
      --p.idle;
    }
    const OperationPtr operation = p.ready.front();
    p.ready.pop_front();
    run(p, operation, lock);
  }
}

/// One more thread when there is more to do than `free_threads` can take. Called with the lock
/// held.
void grow(Pool& p, unsigned free_threads) {
  if (free_threads >= p.ready.size() || p.threads >= kThreadsMax) return;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kStackBytes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  for (int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) sigdelset(&all, fault);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  if (pthread_create(&thread, &attributes, serve, nullptr) == 0) ++p.threads;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attributes);
}

}  // namespace

void schedule(const OperationPtr& operation, const std::vector<OperationPtr>& before) {
  Pool& p = pool();
  const std::lock_guard lock(p.mutex);
  for (const OperationPtr& b : before) {
    if (b == nullptr || b->is_done) continue;
    b->successors.push_back(operation);
    ++operation->waiting_for;
  }
  if (operation->waiting_for != 0) return;
  make_ready(p, operation);
  grow(p, p.idle);
  wake_one(p);
}

bool is_done(const OperationPtr& operation) {
  if (operation == nullptr) return true;
  const std::lock_guard lock(pool().mutex);
  return operation->is_done;
}

void wait_for(const OperationPtr& operation) {
  if (operation == nullptr) return;
  Pool& p = pool();
  std::unique_lock lock(p.mutex);
  p.finished.wait(lock, [&] { return operation->is_done; });
}

bool wait_until(const std::vector<OperationPtr>& operations,
                std::chrono::steady_clock::time_point deadline) {
  Pool& p = pool();
  std::unique_lock lock(p.mutex);
  return p.finished.wait_until(lock, deadline, [&] {
    return std::all_of(operations.begin(), operations.end(), [](const OperationPtr& operation) {
      return operation == nullptr || operation->is_done;
    });
  });
}

}  // namespace sluice::softgpu
