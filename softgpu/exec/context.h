// The memory that compiled kernels read and write: one context per running block, one record per
// thread of a block that can suspend. lower/ knows the offsets; keep both in step.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sluice::softgpu {

class KernelServices;

/// What a suspended thread waits for.
enum class Wait : std::uint32_t {
  kNone,
  kBarrier,   ///< bar, barrier: `mask` is the barrier's number, `count` its threads (0 = all)
  kWarp,      ///< *.sync: the lanes of `mask`
  kConverge,  ///< activemask and the forms before .sync: those lanes of the warp that get here
  kYield,     ///< others should run: a spin loop, nanosleep
  kExited,
};

enum class BarrierKind : std::uint32_t { kSync, kArrive, kPopc, kAnd, kOr };

enum class WarpOperation : std::uint32_t {
  kSync,
  kShuffleUp,
  kShuffleDown,
  kShuffleXor,
  kShuffleIndex,
  kVoteAll,
  kVoteAny,
  kVoteUniform,
  kBallot,
  kMatchAny,
  kMatchAll,
  kReduceAdd,
  kReduceMin,
  kReduceMax,
  kReduceMinSigned,
  kReduceMaxSigned,
  kReduceAnd,
  kReduceOr,
  kReduceXor,
  kElect,
  kActiveMask,
  kMatrixMultiply,  ///< a: address of MatrixOperands (exec/matrix.h), c: MatrixShape::pack()
  kMatrixLoad,      ///< a: likewise, c: number of matrices, 16 more if they are transposed
};

/// Written by the thread's code before it suspends, read by it when it goes on.
struct alignas(64) ThreadRecord {
  void* frame;  ///< of its coroutine; null before it has started
  Wait wait;
  std::uint32_t operation;  ///< BarrierKind or WarpOperation
  std::uint32_t line;       ///< of the PTX, for messages
  std::uint32_t mask;
  std::uint32_t count;
  std::uint32_t b;  ///< shfl: lane or delta (c is in count); barriers and votes: the predicate
  std::uint64_t a;  ///< shfl, match, redux: the value
  std::uint64_t result;
  std::uint32_t predicate;
  std::uint32_t site;  ///< kConverge: which instruction, in the order of the text
};
static_assert(sizeof(ThreadRecord) == 64);

struct BlockContext {
  std::uint32_t ntid[3];
  std::uint32_t ctaid[3];
  std::uint32_t nctaid[3];
  std::uint32_t dynamic_shared_bytes;
  std::uint32_t total_shared_bytes;
  std::uint32_t grid_id;
  std::byte* shared;               ///< base of the block's shared window
  const std::byte* params;         ///< the launch's parameter buffer
  ThreadRecord* threads;           ///< by linear thread index; null for kernels that never suspend
  void* grid_workspace;            ///< of a cooperative launch, else null: %envreg1 and 2
  std::byte *frames, *frames_end;  ///< free memory for coroutine frames
  KernelServices* services;
};

/// Runs every thread of the block that `context` describes.
using BlockFunction = void (*)(BlockContext* context);
/// Starts one thread, which runs until it suspends first; returns its frame. The frame's first
/// word is the function that resumes it.
using ThreadFunction = void* (*)(BlockContext* context, std::uint32_t x, std::uint32_t y,
                                 std::uint32_t z);

/// Bytes of address space behind the shared base that fault: any 32-bit offset beyond the block's
/// memory lands there.
inline constexpr std::size_t kSharedWindowBytes = std::size_t{4} << 30;
inline constexpr std::uint32_t kSharedBytesMax = 227 * 1024;
inline constexpr unsigned kWarpLanes = 32;
inline constexpr unsigned kBlockThreadsMax = 1024;
inline constexpr unsigned kBarriers = 16;

}  // namespace sluice::softgpu
