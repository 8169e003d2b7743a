// One launch being worked on by several threads.
#pragma once

#include "softgpu/exec/block.h"
#include "softgpu/exec/watch.h"

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace sluice::softgpu {

class Grid : public Watched {
 public:
  Grid(const CompiledKernel& kernel, const LaunchConfig& config);

  /// Takes part until no block is left to start and those that this thread started have ended.
  void work();
  [[nodiscard]] std::uint64_t block_count() const { return block_count_; }
  [[nodiscard]] const LaunchResult& result() const { return result_; }

  std::mutex mutex;
  std::condition_variable idle;
  unsigned helpers = 0;  ///< pool threads inside work()

 private:
  [[nodiscard]] bool is_cancelled() const override;
  void cancel() override { stop(LaunchOutcome::kCancelled, "cancelled"); }
  void stop(LaunchOutcome outcome, std::string detail);
  bool start_another(std::vector<std::unique_ptr<BlockRun>>* running);
  bool advance(BlockRun* run, bool* is_done);

  const CompiledKernel kernel_;
  const LaunchConfig& config_;
  const std::uint64_t block_count_;
  std::atomic<std::uint64_t> next_{0};
  std::uint64_t workspace_[8] = {};  ///< of a cooperative launch; zeroed
  LaunchResult result_;
};

}  // namespace sluice::softgpu
