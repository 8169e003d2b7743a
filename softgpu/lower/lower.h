// PTX to LLVM IR, one lane: every PTX thread is a call of one function. A block is a loop over it,
// unless threads wait for one another (barriers, warp collectives, spin loops): then each thread is
// a coroutine and exec/block.cpp schedules them.
#pragma once

#include "common/result.h"
#include "softgpu/ptx/ast.h"

#include <llvm/IR/Module.h>

#include <memory>
#include <string>

namespace sluice::softgpu::lower {

struct LoweredKernel {
  std::unique_ptr<llvm::Module> module;
  std::string entry;  ///< symbol of a ThreadFunction if it can suspend, else of a BlockFunction
  bool can_suspend = false;
  std::uint32_t static_shared_bytes = 0;
  std::uint32_t local_bytes = 0;
};

/// Err(kUnsupported): "kernel NAME: line 12: instruction \"bar.sync\" is not supported yet".
Result<LoweredKernel> lower_kernel(const ptx::Module& module, const ptx::Function& kernel,
                                   llvm::LLVMContext& context);

/// Name that a module variable has as an external symbol.
std::string symbol_of(const std::string& variable);

/// The external symbol from which pointers to functions are counted (ptx::function_offset).
constexpr char kFunctionsSymbol[] = "functions";

/// Static shared memory of a kernel and the functions it may call, and its .local bytes, without
/// lowering.
struct Footprint {
  std::uint32_t shared_bytes = 0, local_bytes = 0;
};
Footprint footprint(const ptx::Module& module, const ptx::Function& kernel);

}  // namespace sluice::softgpu::lower
