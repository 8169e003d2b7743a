// What this worker holds of each device, by kind, and what the driver says that the process holds.
// All device memory is drawn and given back here. Where a call's need is known, the ledger is asked
// before the driver; where it is not (modules, contexts, graphs) it is measured and asked for
// behind the call, which is undone if the answer is no. What the process has beyond all that it
// drew, driver and libraries took for themselves: that is reported.
#pragma once

#include "server/worker/ledger_link.h"

#include <cuda.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

namespace sluice::server {

/// Thread-safe; what says so wants `mutex` held. A sample and what it is compared with belong
/// together only under it, so every call of the driver that takes or frees memory is made under it,
/// too, but for those that are measured.
class MemoryAccount {
 public:
  MemoryAccount(LedgerLink& ledger, std::mutex& mutex) : ledger_(ledger), mutex_(mutex) {}

  /// Bytes that the driver counts for this process on a device; none: it does not say. Before the
  /// session begins.
  using ProcessBytes = std::function<std::optional<std::uint64_t>(std::uint32_t device)>;
  void measure_with(ProcessBytes process_bytes) { process_bytes_ = std::move(process_bytes); }

  struct Amount {
    std::uint32_t device = 0;
    MemoryKind kind = MemoryKind::kData;
    std::uint64_t bytes = 0;
  };
  /// Runs `take` (a call of the driver, under the mutex) if the ledger grants the amount; else
  /// CUDA_ERROR_OUT_OF_MEMORY. Nothing is held if `take` fails.
  template <class Take>
  CUresult draw(const Amount& amount, Take take) {
    if (!ledger_.charge(amount.device, amount.kind, amount.bytes).is_granted)
      return CUDA_ERROR_OUT_OF_MEMORY;
    const std::lock_guard lock(mutex_);
    const CUresult result = take();
    if (result == CUDA_SUCCESS)
      hold(amount);
    else
      ledger_.refund(amount.device, amount.kind, amount.bytes);
    return result;
  }
  /// Runs `make`, and draws what the process has more behind it. `undo`: what `make` made is too
  /// much for the slice. `amount` comes with device and kind and gets the bytes. Decode thread.
  template <class Make, class Undo>
  CUresult draw_measured(Amount* amount, Make make, Undo undo) {
    const std::uint64_t before = begin_measuring(amount->device);
    const CUresult result = make();
    const bool is_granted = end_measuring(amount, before, result == CUDA_SUCCESS);
    if (is_granted) return result;
    undo();
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  /// The mutex is held: the driver has freed it under the same lock.
  void give_back(const Amount& amount);

  /// What was measured and drawn belongs to something that the driver made, by type and value of
  /// its handle, and goes with its context (null: it has none). The mutex is not held.
  using Key = std::pair<const void*, const void*>;
  void note_made(const Key& key, const Amount& amount, CUcontext context);
  /// Frees it by `release` and gives back what was drawn for it. The mutex is not held.
  template <class Release>
  CUresult release_made(const Key& key, Release release) {
    begin_release();
    const CUresult result = release();  // it may wait for kernels
    end_release(key, result == CUDA_SUCCESS);
    return result;
  }
  /// Everything that went with the context. The mutex is held.
  void forget_context(CUcontext context);

  /// Tells the ledger what the process has beyond what it drew, where that has changed, and how
  /// much pinned host memory there is. Skips what is being measured just now.
  void report(std::uint64_t pinned_bytes);

  /// Of the slice, the most at a time.
  [[nodiscard]] std::uint64_t peak_bytes() const { return peak_bytes_; }

 private:
  struct Device {
    std::uint64_t held_bytes = 0;  ///< drawn, all kinds
    std::uint64_t reported_beyond_bytes = 0;
  };
  struct Made {
    Amount amount;
    CUcontext context = nullptr;
  };
  void hold(const Amount& amount);
  void begin_release();
  void end_release(const Key& key, bool is_released);
  [[nodiscard]] std::uint64_t beyond_bytes(std::uint32_t device) const;
  std::uint64_t begin_measuring(std::uint32_t device);
  bool end_measuring(Amount* amount, std::uint64_t before, bool has_made);

  LedgerLink& ledger_;
  std::mutex& mutex_;  ///< guards what follows
  ProcessBytes process_bytes_;
  std::map<std::uint32_t, Device> devices_;
  std::map<Key, Made> made_;
  bool is_measuring_ = false;
  unsigned releases_ = 0;  ///< under way: what they free may be free, and is still held here
  std::condition_variable released_;
  std::uint64_t slice_bytes_ = 0;  ///< of all devices, what counts against the slice
  std::atomic<std::uint64_t> peak_bytes_{0};
  std::uint64_t reported_pinned_bytes_ = 0;
};

}  // namespace sluice::server
