// Failures of posted commands (architecture D11): they come back when their call has long returned
// and are reported by a later one; those that end a context are reported for ever. Also the names
// of all errors.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>

namespace sluice::shim {

/// Errors after which a context is good for nothing (CUDA driver API, CUresult: "must be terminated
/// and relaunched").
bool is_sticky(CUresult result) noexcept;

/// "CUDA_ERROR_OUT_OF_MEMORY" and its description; null for numbers that are no CUresult.
const char* error_name(CUresult result) noexcept;
const char* error_text(CUresult result) noexcept;

/// The first failure of a posted record that no call has reported yet. Thread-safe.
class Deferred {
 public:
  void note(CUresult result) noexcept {
    int none = CUDA_SUCCESS;
    result_.compare_exchange_strong(none, result);
  }
  /// Reports it once.
  CUresult take() noexcept {
    if (result_.load(std::memory_order_relaxed) == CUDA_SUCCESS) return CUDA_SUCCESS;
    return static_cast<CUresult>(result_.exchange(CUDA_SUCCESS));
  }

 private:
  std::atomic<int> result_{CUDA_SUCCESS};
};

}  // namespace sluice::shim
