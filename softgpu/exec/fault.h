// Turns a memory fault of a kernel into the end of that kernel: SIGSEGV and SIGBUS on a thread that
// is inside one jump back to the launcher; any other fault goes to whoever handled it before.
#pragma once

#include "softgpu/exec/program.h"

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

}  // namespace sluice::softgpu
