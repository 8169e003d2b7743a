// cuMemAlloc, cuMemAllocAsync and their frees: from the arena of the context, and from the worker
// where the arena has nothing. Memory that the program has freed stays charged to the slice while
// it is kept, so it is given back when the slice is short of it and when the program has not used
// any for a while; what the program is told counts it as free.
//
// A free takes effect when every command issued before has completed (cuMemFree waits for them in
// CUDA, too); to learn that, a fence is posted behind them, one at a time. What is freed in the
// order of a stream is given out at once to whoever allocates in the same order.
#pragma once

#include "protocol/wire.h"
#include "shim/arena.h"
#include "shim/objects.h"
#include "shim/pipeline.h"

#include <cuda.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

namespace sluice::shim {

class Devices;

/// Thread-safe.
class DeviceMemory {
 public:
  DeviceMemory(Pipeline& pipeline, const Devices& devices)
      : pipeline_(pipeline), devices_(devices) {}

  using Order = Arena::Order;
  /// For the current context. CUDA_ERROR_OUT_OF_MEMORY: the slice is full.
  CUresult allocate(const Context& context, std::size_t bytes, CUdeviceptr* out, Order order = {});
  /// What allocate() has given for that context.
  CUresult free(const Context& context, CUdeviceptr address, Order order = {});
  /// The context is about to be destroyed, and everything in it.
  void forget(const Context& context);
  /// Kept here although the program has freed it; `ordinal` is the server's number of the device.
  [[nodiscard]] std::size_t spare_bytes_of(std::uint32_t ordinal) const;
  /// Gives back to the worker what nothing is in; waits for commands that still use what was freed.
  /// True if that was anything: what was refused for want of memory may be possible now.
  bool give_back_spare();
  /// The same without waiting.
  void trim() { give_back_free(); }
  /// Everything up to that record has completed, in all contexts.
  void completed(std::uint64_t seq) noexcept;

  void on_fence_done(std::uint64_t seq) noexcept;
  /// Another session of the tenant is short of memory.
  void on_recall() noexcept;
  /// The service thread: the program has posted nothing for a while, or on_recall() was called.
  void on_quiet() noexcept;

 private:
  Arena& arena_of(const Context& context);
  [[nodiscard]] bool uses_arena() const;
  std::optional<CUdeviceptr> take(const Context& context, std::size_t bytes, Order order);
  std::optional<CUdeviceptr> take_late(const Context& context, std::size_t bytes, Order order);
  CUresult await_frees(const Context& context);
  CUresult allocate_new(const Context& context, std::size_t bytes, CUdeviceptr* out, Order order);
  CUresult allocate_whole(const Context& context, std::size_t bytes, CUdeviceptr* out, Order order);
  bool give_back_free();
  bool give_back_free(Arena& arena);
  [[nodiscard]] std::uint64_t busy_until() const;
  void ask_for_completion(std::uint64_t seq);
  void tell_spare(const Context& context);

  Pipeline& pipeline_;
  const Devices& devices_;
  mutable std::mutex mutex_;  ///< guards the arenas
  std::map<const Context*, Arena> arenas_;
  std::atomic<std::uint64_t> completed_{0};  ///< number of a record
  std::atomic<bool> is_fence_under_way_{false};
  std::atomic<std::int64_t> told_at_ms_{0};
  std::atomic<bool> is_recalled_{false};
  std::atomic<std::uint64_t> uses_{0};
  std::uint64_t uses_before_quiet_ = 0;  ///< the service thread's
};

}  // namespace sluice::shim
