// One block being run. Kernels that never wait run as a loop over the threads; all others as one
// coroutine per thread, which this scheduler resumes when what it waits for has come.
#pragma once

#include "softgpu/exec/fault.h"
#include "softgpu/exec/pool.h"
#include "softgpu/exec/window.h"

#include <array>
#include <memory>

namespace sluice::softgpu {

class BlockRun {
 public:
  enum class Progress { kDone, kYielded, kFailed };

  /// False with a reason if there is no memory for a block of this launch.
  bool prepare(const CompiledKernel& kernel, const LaunchConfig& config, void* grid_workspace,
               const char** reason);
  void start(std::uint64_t block_index);
  /// Runs until the block has ended or every thread left waits for another block.
  Progress step(KernelFault* fault);
  /// Between blocks: gives memory back that only large frames need.
  void trim();

  [[nodiscard]] const BlockContext& context() const { return context_; }

 private:
  struct Warp {
    std::uint32_t alive = 0, ready = 0, yielded = 0, gathering = 0, converging = 0;
  };
  struct Barrier {
    std::array<std::uint32_t, kBlockThreadsMax / kWarpLanes> arrived{}, waiting{};
    std::uint32_t count = 0, true_count = 0, predicates = 0;
  };

  void run_threads();
  bool run_warp(unsigned warp);
  void resume(unsigned warp, unsigned lane);
  void arrive(unsigned warp, unsigned lane, ThreadRecord& record);
  bool finish_collective(unsigned warp);
  bool finish_convergence(unsigned warp);
  bool release_barriers();
  [[nodiscard]] bool is_complete(const Barrier& barrier) const;
  void release(unsigned number);
  bool wake_yielded();
  void describe_deadlock(char* text, std::size_t bytes) const;

  CompiledKernel kernel_;
  BlockContext context_{};
  SharedWindow shared_;
  std::unique_ptr<Reservation> frames_;
  std::unique_ptr<ThreadRecord[]> records_;
  std::array<Warp, kBlockThreadsMax / kWarpLanes> warps_{};
  std::array<Barrier, kBarriers> barriers_{};
  std::uint32_t barriers_in_use_ = 0;
  unsigned warp_count_ = 0, thread_count_ = 0;
  Progress progress_ = Progress::kDone;
};

}  // namespace sluice::softgpu
