#include "softgpu/exec/block.h"

#include "softgpu/exec/warp.h"

#include <bit>
#include <cstdio>
#include <cstring>

namespace sluice::softgpu {
namespace {

/// Address space for the frames of a block; only what is touched costs memory.
constexpr std::size_t kFramesBytes = std::size_t{1} << 30;
constexpr std::size_t kFramesKeptBytes = std::size_t{8} << 20;

unsigned lowest(std::uint32_t mask) {
  return static_cast<unsigned>(std::countr_zero(mask));
}

}  // namespace

bool BlockRun::prepare(const CompiledKernel& kernel, const LaunchConfig& config,
                       void* grid_workspace, const char** reason) {
  kernel_ = kernel;
  const std::uint32_t shared_bytes = kernel.static_shared_bytes + config.dynamic_shared_bytes;
  context_ = {};
  context_.shared = shared_.resize(shared_bytes);
  if (context_.shared == nullptr) {
    *reason = "no address space for shared memory";
    return false;
  }
  const Dim3& b = config.block;
  const Dim3& g = config.grid;
  context_.ntid[0] = b.x, context_.ntid[1] = b.y, context_.ntid[2] = b.z;
  context_.nctaid[0] = g.x, context_.nctaid[1] = g.y, context_.nctaid[2] = g.z;
  context_.dynamic_shared_bytes = config.dynamic_shared_bytes;
  context_.total_shared_bytes = shared_bytes;
  context_.params = config.params.data();
  context_.grid_workspace = grid_workspace;
  context_.services = config.services.get();
  thread_count_ = b.x * b.y * b.z;
  warp_count_ = (thread_count_ + kWarpLanes - 1) / kWarpLanes;
  if (kernel.thread == nullptr) return true;
  if (frames_ == nullptr) frames_ = std::make_unique<Reservation>(kFramesBytes, true);
  if (records_ == nullptr) records_ = std::make_unique<ThreadRecord[]>(kBlockThreadsMax);
  if (frames_->base() == nullptr) {
    *reason = "no address space for the threads of a block";
    return false;
  }
  context_.threads = records_.get();
  return true;
}

void BlockRun::start(std::uint64_t block_index) {
  const std::uint64_t x = context_.nctaid[0];
  const std::uint64_t y = context_.nctaid[1];
  context_.ctaid[0] = static_cast<std::uint32_t>(block_index % x);
  context_.ctaid[1] = static_cast<std::uint32_t>(block_index / x % y);
  context_.ctaid[2] = static_cast<std::uint32_t>(block_index / x / y);
  if (kernel_.thread == nullptr) return;
  context_.frames = frames_->base();
  context_.frames_end = frames_->base() + frames_->bytes();
  for (unsigned t = 0; t < warp_count_ * kWarpLanes; ++t) records_[t].frame = nullptr;
  for (unsigned w = 0; w < warp_count_; ++w) {
    warps_[w] = {};
    const unsigned lanes = std::min(thread_count_ - w * kWarpLanes, kWarpLanes);
    warps_[w].alive = warps_[w].ready = lanes == kWarpLanes ? ~0u : (1u << lanes) - 1;
  }
  barriers_in_use_ = 0;
  barriers_.fill({});
}

BlockRun::Progress BlockRun::step(KernelFault* fault) {
  progress_ = Progress::kFailed;
  *fault = run_guarded([](void* self) { static_cast<BlockRun*>(self)->run_threads(); }, this);
  return fault->outcome == LaunchOutcome::kOk ? progress_ : Progress::kFailed;
}

void BlockRun::trim() {
  if (frames_ == nullptr || context_.frames == nullptr) return;
  const auto used = static_cast<std::size_t>(context_.frames - frames_->base());
  if (used > kFramesKeptBytes) frames_->discard(kFramesKeptBytes);
}

/// Under run_guarded: may be left at any time by a jump, so it owns nothing.
void BlockRun::run_threads() {
  progress_ = Progress::kDone;
  if (kernel_.thread == nullptr) return kernel_.block(&context_);
  for (;;) {
    bool is_alive = false;
    for (unsigned w = 0; w < warp_count_; ++w) is_alive |= run_warp(w);
    if (!is_alive) return;
    const bool has_released = release_barriers();
    const bool has_yielded = wake_yielded();
    if (has_released) continue;
    if (has_yielded) {
      progress_ = Progress::kYielded;
      return;
    }
    char text[400];
    describe_deadlock(text, sizeof text);
    leave_kernel(LaunchOutcome::kFailed, text);
  }
}

/// Until no lane of the warp can go on. False if all have ended.
bool BlockRun::run_warp(unsigned w) {
  Warp& warp = warps_[w];
  do {
    while (warp.ready != 0) {
      const unsigned lane = lowest(warp.ready);
      warp.ready &= warp.ready - 1;
      resume(w, lane);
    }
  } while (finish_collective(w) || finish_convergence(w));
  return warp.alive != 0;
}

void BlockRun::resume(unsigned w, unsigned lane) {
  const unsigned index = w * kWarpLanes + lane;
  ThreadRecord& record = records_[index];
  if (record.frame == nullptr) {
    const std::uint32_t* n = context_.ntid;
    record.frame =
        kernel_.thread(&context_, index % n[0], index / n[0] % n[1], index / n[0] / n[1]);
  } else {
    (*static_cast<void (**)(void*)>(record.frame))(record.frame);
  }
  Warp& warp = warps_[w];
  const std::uint32_t bit = 1u << lane;
  switch (record.wait) {
    case Wait::kNone:
      warp.ready |= bit;
      break;
    case Wait::kBarrier:
      arrive(w, lane, record);
      break;
    case Wait::kWarp:
      warp.gathering |= bit;
      break;
    case Wait::kConverge:
      warp.converging |= bit;
      break;
    case Wait::kYield:
      warp.yielded |= bit;
      break;
    case Wait::kExited:
      warp.alive &= ~bit;
      break;
  }
}

void BlockRun::arrive(unsigned w, unsigned lane, ThreadRecord& record) {
  const unsigned number = record.mask % kBarriers;
  const std::uint32_t bit = 1u << lane;
  Barrier& barrier = barriers_[number];
  barriers_in_use_ |= 1u << number;
  barrier.arrived[w] |= bit;
  barrier.count = record.count;
  if (record.b != 0) {
    ++barrier.true_count;
    barrier.predicates |= 1;
  } else {
    barrier.predicates |= 2;
  }
  if (static_cast<BarrierKind>(record.operation) == BarrierKind::kArrive)
    warps_[w].ready |= bit;
  else
    barrier.waiting[w] |= bit;
}

/// One collective whose lanes have all arrived; lanes that have ended are not waited for.
bool BlockRun::finish_collective(unsigned w) {
  Warp& warp = warps_[w];
  ThreadRecord* lanes = &records_[w * kWarpLanes];
  for (std::uint32_t leads = warp.gathering; leads != 0;) {
    const unsigned lead = lowest(leads);
    const ThreadRecord& first = lanes[lead];
    const std::uint32_t members = first.mask & warp.alive;
    leads &= leads - 1;
    if ((members >> lead & 1) == 0 || (members & ~warp.gathering) != 0) continue;
    bool is_same = true;
    for (std::uint32_t rest = members; rest != 0; rest &= rest - 1) {
      const ThreadRecord& other = lanes[lowest(rest)];
      is_same = is_same && other.mask == first.mask && other.operation == first.operation;
    }
    if (!is_same) continue;
    run_collective(lanes, members);
    warp.gathering &= ~members;
    warp.ready |= members;
    return true;
  }
  return false;
}

/// Lanes at the same instruction form a group once no lane of the warp can come any nearer; the
/// group that is furthest behind goes first, as lanes of a GPU's warp come together again.
bool BlockRun::finish_convergence(unsigned w) {
  Warp& warp = warps_[w];
  if (warp.converging == 0) return false;
  ThreadRecord* lanes = &records_[w * kWarpLanes];
  std::uint32_t site = ~0u;
  std::uint32_t members = 0;
  for (std::uint32_t rest = warp.converging; rest != 0; rest &= rest - 1) {
    const unsigned lane = lowest(rest);
    if (lanes[lane].site > site) continue;
    if (lanes[lane].site < site) members = 0;
    site = lanes[lane].site;
    members |= 1u << lane;
  }
  run_collective(lanes, members);
  warp.converging &= ~members;
  warp.ready |= members;
  return true;
}

/// Without a count all threads that have not ended are awaited. With one, a warp that has arrived
/// counts whole, as on a GPU: lanes that do not exist or have ended are in it.
bool BlockRun::is_complete(const Barrier& barrier) const {
  if (barrier.count == 0 || barrier.count >= thread_count_) {
    for (unsigned w = 0; w < warp_count_; ++w)
      if ((warps_[w].alive & ~barrier.arrived[w]) != 0) return false;
    return true;
  }
  unsigned arrived = 0;
  for (unsigned w = 0; w < warp_count_; ++w)
    if (barrier.arrived[w] != 0)
      arrived += static_cast<unsigned>(std::popcount(barrier.arrived[w] | ~warps_[w].alive));
  return arrived >= barrier.count;
}

bool BlockRun::release_barriers() {
  bool has_released = false;
  for (std::uint32_t rest = barriers_in_use_; rest != 0; rest &= rest - 1) {
    const unsigned number = lowest(rest);
    if (!is_complete(barriers_[number])) continue;
    release(number);
    has_released = true;
  }
  return has_released;
}

void BlockRun::release(unsigned number) {
  Barrier& barrier = barriers_[number];
  for (unsigned w = 0; w < warp_count_; ++w) {
    for (std::uint32_t rest = barrier.waiting[w]; rest != 0; rest &= rest - 1) {
      ThreadRecord& record = records_[w * kWarpLanes + lowest(rest)];
      record.result = barrier.true_count;
      record.predicate = static_cast<BarrierKind>(record.operation) == BarrierKind::kAnd
                             ? (barrier.predicates & 2) == 0
                             : (barrier.predicates & 1) != 0;
    }
    warps_[w].ready |= barrier.waiting[w];
  }
  barrier = {};
  barriers_in_use_ &= ~(1u << number);
}

bool BlockRun::wake_yielded() {
  bool has_yielded = false;
  for (unsigned w = 0; w < warp_count_; ++w) {
    has_yielded = has_yielded || warps_[w].yielded != 0;
    warps_[w].ready |= warps_[w].yielded;
    warps_[w].yielded = 0;
  }
  return has_yielded;
}

/// Threads that wait for the same thing are one entry: how many, and who is the first.
void BlockRun::describe_deadlock(char* text, std::size_t bytes) const {
  int used = std::snprintf(text, bytes, "deadlock:");
  bool is_told[kBlockThreadsMax] = {};
  const std::uint32_t* n = context_.ntid;
  for (unsigned t = 0; t < thread_count_; ++t) {
    if (is_told[t] || (warps_[t / kWarpLanes].alive >> t % kWarpLanes & 1) == 0) continue;
    const ThreadRecord& first = records_[t];
    unsigned count = 0;
    for (unsigned u = t; u < thread_count_; ++u) {
      const ThreadRecord& other = records_[u];
      if ((warps_[u / kWarpLanes].alive >> u % kWarpLanes & 1) == 0 || other.wait != first.wait ||
          other.line != first.line || other.mask != first.mask)
        continue;
      is_told[u] = true;
      ++count;
    }
    if (used < 0 || static_cast<std::size_t>(used) >= bytes) return;
    const bool is_barrier = first.wait == Wait::kBarrier;
    used +=
        std::snprintf(text + used, bytes - static_cast<std::size_t>(used),
                      is_barrier ? " %u thread(s) from (%u, %u, %u) wait at barrier %u (line %u);"
                                 : " %u thread(s) from (%u, %u, %u) wait for the lanes %#x of "
                                   "their warp (line %u);",
                      count, t % n[0], t / n[0] % n[1], t / n[0] / n[1], first.mask, first.line);
  }
}

}  // namespace sluice::softgpu
