// What the shim wants a block of device memory for, in memory_block records.
#pragma once

#include <cstdint>

namespace sluice::wire {

enum class BlockUse : std::uint32_t {
  kSlab = 1,  ///< small allocations share it
  kPool = 2,  ///< allocated in the order of a stream
};

}  // namespace sluice::wire
