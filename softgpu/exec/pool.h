// Worker threads that run the blocks of grids. Several grids may run at once; a grid's caller takes
// part in its work.
#pragma once

#include "softgpu/exec/context.h"
#include "softgpu/exec/program.h"

namespace sluice::softgpu {

/// Runs all blocks of a grid; returns when every one has ended or one of them faulted. Thread-safe.
LaunchResult run_grid(BlockFunction block, const LaunchConfig& config,
                      std::uint32_t static_shared_bytes);

}  // namespace sluice::softgpu
