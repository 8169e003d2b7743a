// Turns kernels that wait for other threads into coroutines. Lowering marks each place where a
// thread suspends by a call; this part adds such places to loops that may spin, brings them all
// into the kernel's own function, and makes LLVM split it there.
#pragma once

#include <llvm/IR/Module.h>

#include <string>

namespace sluice::softgpu::lower {

/// The function whose calls are the places where a thread suspends.
llvm::FunctionCallee suspend_marker(llvm::Module& module);

/// The function whose calls, in device functions, are the places where a thread ends.
llvm::FunctionCallee exit_marker(llvm::Module& module);

/// Loops that read memory which another thread may be about to write get a place where, now and
/// then, the others run.
void let_spinning_loops_yield(llvm::Function& function);

/// Brings all places into `thread` (void, of context and index), and if it can suspend makes it a
/// coroutine `name` (ptr of the same, see ThreadFunction): *out is then true. The error is empty on
/// success.
std::string make_coroutine(llvm::Function* thread, const std::string& name, bool* out);

}  // namespace sluice::softgpu::lower
