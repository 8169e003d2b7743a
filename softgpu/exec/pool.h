// Worker threads that run the blocks of grids. Several grids may run at once; a grid's caller takes
// part in its work.
#pragma once

#include "softgpu/exec/context.h"
#include "softgpu/exec/program.h"

namespace sluice::softgpu {

/// Exactly one of the two entries is set.
struct CompiledKernel {
  BlockFunction block = nullptr;    ///< never suspends: runs a whole block
  ThreadFunction thread = nullptr;  ///< starts one thread
  std::uint32_t static_shared_bytes = 0;
};

/// Runs all blocks of a grid; returns when every one has ended or one of them faulted. Thread-safe.
LaunchResult run_grid(const CompiledKernel& kernel, const LaunchConfig& config);

}  // namespace sluice::softgpu
