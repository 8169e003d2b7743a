// A stream-ordered memory pool: what a stream has freed can be used again by later work of that
// stream at once, by others when the free has run, and in need by making them wait for it.
#pragma once

#include "softgpu/api/state.h"

namespace sluice::softgpu {

class MemoryPool {
 public:
  struct Figures {
    std::uint64_t used = 0, used_high = 0, reserved = 0, reserved_high = 0;
  };

  /// `bytes_max` 0 = as much as the device has.
  MemoryPool(Device* device, std::size_t bytes_max);
  ~MemoryPool();
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;

  CUresult allocate(std::size_t bytes, const std::shared_ptr<Stream>& stream, CUdeviceptr* out);
  /// Frees in stream order.
  CUresult free_in(CUdeviceptr p, const std::shared_ptr<Stream>& stream);
  /// Frees what nothing uses any more (cuMemFree, which has waited).
  bool free_now(CUdeviceptr p);
  [[nodiscard]] bool owns(CUdeviceptr p);
  /// Gives the device back what is free, as long as more than `keep_bytes` are reserved.
  void trim(std::size_t keep_bytes);
  [[nodiscard]] bool is_empty();  ///< nothing allocated, nothing about to be freed
  Figures figures();
  void reset_high(bool of_used);

  [[nodiscard]] Device* device() const { return device_; }
  std::atomic<std::uint64_t> release_threshold_bytes{0};
  std::atomic<int> follow_event_dependencies{1}, allow_opportunistic{1},
      allow_internal_dependencies{1};

 private:
  struct Free {
    std::uint64_t address = 0;
    std::size_t capacity = 0;
    std::uint64_t stream = 0;
    OperationPtr freed;
  };
  /// Called with the mutex held.
  std::optional<Free> take_free(std::size_t bytes, std::uint64_t stream, bool in_need);
  std::optional<std::uint64_t> grow(std::size_t bytes);
  void release_done(std::size_t keep_bytes);

  Device* device_;
  std::size_t bytes_max_;
  std::mutex mutex_;
  std::map<std::uint64_t, std::size_t> used_;  ///< address: capacity
  std::vector<Free> free_;
  Figures figures_;
};

/// The pool that allocated the address, whether the program still holds its handle or not.
std::shared_ptr<MemoryPool> pool_of(CUdeviceptr p);
/// A destroyed pool lives on while something of it is allocated.
void keep_until_empty(std::shared_ptr<MemoryPool> pool);
/// What synchronising calls do: pools keep no more than their release threshold.
void trim_pools();

}  // namespace sluice::softgpu
