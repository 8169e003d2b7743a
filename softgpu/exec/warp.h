// The one place where lanes of a warp exchange values: every collective instruction of PTX ends
// here once all of its lanes have arrived.
#pragma once

#include "softgpu/exec/context.h"

namespace sluice::softgpu {

/// `lanes`: the warp's 32 records; `members`: those that take part, at least one. Reads their
/// operands, writes result and predicate of each.
void run_collective(ThreadRecord* lanes, std::uint32_t members);

}  // namespace sluice::softgpu
