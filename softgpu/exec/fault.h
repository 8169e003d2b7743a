// Turns a memory fault of a kernel into the end of that kernel: SIGSEGV and SIGBUS on a thread that
// is inside one jump back to the launcher; any other fault goes to whoever handled it before. The
// watchdog ends kernels in the same way, by one real-time signal.
#pragma once

#include "softgpu/exec/program.h"

#include <pthread.h>

#include <atomic>
#include <string>

namespace sluice::softgpu {

struct KernelFault {
  LaunchOutcome outcome = LaunchOutcome::kOk;
  std::string detail;
};

/// Calls block(context) on this thread; returns how it ended. Sets up this thread's alternate
/// signal stack on first use.
KernelFault run_guarded(void (*block)(void*), void* context);

/// From helpers, inside run_guarded only: ends the kernel. Does not return.
[[noreturn]] void leave_kernel(LaunchOutcome outcome, const char* detail);

/// From now on interrupt_kernel() ends what this thread runs under run_guarded if *is_stopped;
/// null forbids it again.
void allow_interruption(const std::atomic<bool>* is_stopped);
void interrupt_kernel(pthread_t thread);

/// While one lives, this thread is not driven out of its kernel: it may hold a lock. A fault ends
/// the kernel all the same, so where the kernel's memory is read no lock may be held.
class UninterruptedScope {
 public:
  UninterruptedScope();
  ~UninterruptedScope();
  UninterruptedScope(const UninterruptedScope&) = delete;
  UninterruptedScope& operator=(const UninterruptedScope&) = delete;
};

}  // namespace sluice::softgpu
