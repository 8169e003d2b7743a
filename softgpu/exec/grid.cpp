#include "softgpu/exec/grid.h"

#include "common/format.h"
#include "softgpu/exec/turn.h"

#include <sched.h>

namespace sluice::softgpu {
namespace {

/// A thread starts another block beside its own when that has only waited for so many rounds:
/// it may wait for one that has not started.
constexpr unsigned kPatienceRounds = 2000;
/// Blocks that one thread keeps going at a time unless the launch is cooperative.
constexpr std::size_t kRunningMax = 64;

/// Gigabytes of address space each, so that a thread does not keep those of a cooperative grid.
constexpr std::size_t kSpareRunsMax = 4;

/// Blocks that have ended keep their address space for the next one on this thread.
std::vector<std::unique_ptr<BlockRun>>& spare_runs() {
  thread_local std::vector<std::unique_ptr<BlockRun>> runs;
  return runs;
}

void recycle(std::unique_ptr<BlockRun> run) {
  if (run == nullptr || spare_runs().size() >= kSpareRunsMax) return;
  run->trim();
  spare_runs().push_back(std::move(run));
}

}  // namespace

Grid::Grid(const CompiledKernel& kernel, const LaunchConfig& config)
    : kernel_(kernel),
      config_(config),
      block_count_(std::uint64_t{config.grid.x} * config.grid.y * config.grid.z) {}

bool Grid::is_cancelled() const {
  return config_.is_cancelled && config_.is_cancelled();
}

void Grid::stop(LaunchOutcome outcome, std::string detail) {
  const std::lock_guard lock(mutex);
  if (!is_stopped.exchange(true)) result_ = {outcome, std::move(detail)};
}

/// False if every block has been started.
bool Grid::start_another(std::vector<std::unique_ptr<BlockRun>>* running) {
  const std::uint64_t index = next_.fetch_add(1, std::memory_order_relaxed);
  if (index >= block_count_) return false;
  if (is_cancelled()) {
    cancel();
    return false;
  }
  std::unique_ptr<BlockRun> run;
  if (!spare_runs().empty()) {
    run = std::move(spare_runs().back());
    spare_runs().pop_back();
  } else {
    run = std::make_unique<BlockRun>();
  }
  const char* reason = "";
  if (!run->prepare(kernel_, config_, config_.is_cooperative ? workspace_ : nullptr, &reason)) {
    stop(LaunchOutcome::kFailed, reason);
    return false;
  }
  run->start(index);
  running->push_back(std::move(run));
  return true;
}

/// False if the block only waits for others.
bool Grid::advance(BlockRun* run, bool* is_done) {
  KernelFault fault;
  const BlockRun::Progress progress = run->step(&fault);
  *is_done = progress == BlockRun::Progress::kDone;
  if (progress != BlockRun::Progress::kFailed) return *is_done;
  const std::uint32_t* at = run->context().ctaid;
  std::string detail = std::move(fault.detail);
  if (fault.outcome != LaunchOutcome::kAssert)  // an assertion's message names the block itself
    detail += format(" in block ({}, {}, {})", at[0], at[1], at[2]);
  stop(fault.outcome, std::move(detail));
  return true;
}

void Grid::work() {
  const std::function<bool()> stops = [this] {
    return is_stopped.load(std::memory_order_relaxed) || is_cancelled();
  };
  Turn turn(config_.device, stops);
  if (!turn.has_begun()) return cancel();
  const WatchedThread watched(*this);
  std::vector<std::unique_ptr<BlockRun>> running;
  bool is_all_started = false;
  unsigned fruitless_rounds = 0;
  const std::size_t running_max = config_.is_cooperative ? block_count_ : kRunningMax;
  const unsigned patience = config_.is_cooperative ? 1 : kPatienceRounds;
  while (!is_stopped.load(std::memory_order_relaxed)) {
    turn.let_others();
    if (!turn.has_begun()) {
      cancel();
      break;
    }
    const bool wants_another =
        running.empty() || (fruitless_rounds >= patience && running.size() < running_max);
    if (wants_another && !is_all_started) {
      is_all_started = !start_another(&running);
      fruitless_rounds = 0;
      continue;
    }
    if (running.empty()) break;
    bool has_advanced = false;
    for (auto& run : running) {
      bool is_done = false;
      has_advanced |= advance(run.get(), &is_done);
      if (is_done) recycle(std::move(run));
      if (is_stopped.load(std::memory_order_relaxed)) break;
    }
    std::erase(running, nullptr);
    fruitless_rounds = has_advanced ? 0 : fruitless_rounds + 1;
    if (fruitless_rounds % 64 == 63) sched_yield();  // whoever is waited for may want this core
  }
  for (auto& run : running) recycle(std::move(run));
}

}  // namespace sluice::softgpu
