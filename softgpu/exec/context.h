// The memory that compiled kernels read: one per running block. Offsets are known to lower/; keep
// both in step.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sluice::softgpu {

struct BlockContext {
  std::uint32_t ntid[3];
  std::uint32_t ctaid[3];
  std::uint32_t nctaid[3];
  std::uint32_t dynamic_shared_bytes;
  std::uint32_t total_shared_bytes;
  std::uint32_t grid_id;
  std::byte* shared;        ///< base of the block's shared window
  const std::byte* params;  ///< the launch's parameter buffer
};

/// Runs every thread of the block that `context` describes.
using BlockFunction = void (*)(BlockContext* context);

/// Bytes of address space behind the shared base that fault: any 32-bit offset beyond the block's
/// memory lands there.
inline constexpr std::size_t kSharedWindowBytes = std::size_t{4} << 30;
inline constexpr std::uint32_t kSharedBytesMax = 227 * 1024;

}  // namespace sluice::softgpu
