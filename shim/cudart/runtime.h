// What every runtime function stands on: the driver library (found at first use), the primary
// contexts, and each thread's device and last error. A function body is a lambda given to
// with_context (or a weaker form); what it returns is translated and remembered as CUDA asks.
#pragma once

#include "driver/driver_table.h"
#include "shim/cudart/errors.h"

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#define SLUICE_CUDART_API extern "C" __attribute__((visibility("default")))
/// A function that the name stands for in some CUDA versions only, see forms.txt.
#define SLUICE_CUDART_FORM(major, name) \
  extern "C" __attribute__((visibility("hidden"))) cudaError_t sluice_v##major##_##name

namespace sluice::cudart {

/// A launch configuration between <<<...>>> and the call of the kernel's host stub.
struct CallConfiguration {
  dim3 grid, block;
  std::size_t shared_bytes;
  cudaStream_t stream;
};

/// <<<...>>> nests only when an argument expression launches a kernel itself.
inline constexpr int kCallDepthMax = 4;

/// Trivial on purpose: it must cost nothing to reach and nothing to destroy (256 bytes at most).
struct ThreadState {
  cudaError_t last_error;
  std::uint32_t device_plus_one;  // 0 = the thread never chose
  std::uint32_t generation;       // of the primary context bound below
  std::int32_t call_depth;
  CUcontext bound;
  // Not CallConfiguration: dim3 has a constructor, and this must stay trivial.
  alignas(CallConfiguration) unsigned char calls[kCallDepthMax][sizeof(CallConfiguration)];
};
static_assert(sizeof(ThreadState) <= 256);
ThreadState& thread_state() noexcept;

/// Process state. Thread-safe. One instance, never destroyed (runtime() makes it): unregistration
/// calls arrive while static objects are being destroyed.
class Runtime {
 public:
  Runtime() = default;
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  /// The driver's functions without cuInit: cudaErrorInsufficientDriver if there is no driver.
  cudaError_t load(const DriverTable** cu) noexcept;
  /// The driver's functions if something needed them already; loads nothing.
  bool loaded(const DriverTable** cu) noexcept {
    *cu = &table_;
    return is_loaded_.load(std::memory_order_acquire);
  }
  /// load(), cuInit, device list. A failure is tried again at the next call, as CUDA's cuInit may
  /// succeed later (a server that was not up yet), but not more often than kRetryAfter: programs
  /// that ignore errors must not wait for a connection in every call.
  cudaError_t init(const DriverTable** cu) noexcept;
  /// init(), and a context is current: the application's own, else the thread's device's primary.
  cudaError_t bind(const DriverTable** cu) noexcept {
    cudaError_t error = init(cu);
    return error == cudaSuccess ? bind_context(**cu) : error;
  }

  [[nodiscard]] int device_count() const noexcept { return static_cast<int>(devices_.size()); }
  /// cudaErrorInvalidDevice for an ordinal that does not exist; init() came before.
  cudaError_t device(int ordinal, CUdevice* device) const noexcept;
  /// The ordinal of a driver device, -1 if unknown.
  [[nodiscard]] int ordinal_of(CUdevice device) const noexcept;
  /// The device of the current context, else the thread's choice, else the first valid one.
  int current_ordinal(const DriverTable& cu) noexcept;
  /// Retains the primary context of a device once per process and returns it.
  cudaError_t primary(const DriverTable& cu, int ordinal, CUcontext* context) noexcept;
  cudaError_t select(const DriverTable& cu, int ordinal) noexcept;
  cudaError_t reset(const DriverTable& cu, int ordinal) noexcept;
  cudaError_t set_valid(const int* ordinals, int count) noexcept;

 private:
  struct Device {
    CUdevice device = 0;
    CUcontext primary = nullptr;  // null until retained; guarded by mutex_
  };

  cudaError_t load_locked() noexcept;
  cudaError_t init_locked() noexcept;
  cudaError_t bind_context(const DriverTable& cu) noexcept;
  int default_ordinal() noexcept;

  std::mutex mutex_;
  std::atomic<bool> is_loaded_{false};
  std::atomic<bool> is_ready_{false};
  cudaError_t init_error_ = cudaSuccess;  // of the last try
  std::chrono::steady_clock::time_point retry_at_{};
  std::atomic<std::uint32_t> generation_{1};  // changes when a primary context is reset
  DriverTable table_;
  std::vector<Device> devices_;
  std::atomic<int> first_valid_{0};
};

Runtime& runtime() noexcept;

/// Remembers a failure for cudaGetLastError; cudaErrorNotReady is none.
inline cudaError_t record(cudaError_t error) noexcept {
  if (error != cudaSuccess && error != cudaErrorNotReady) thread_state().last_error = error;
  return error;
}

/// Runs `body(driver)` with a context current. The body returns CUresult or cudaError_t.
template <class Body>
cudaError_t with_context(Body&& body) noexcept {
  const DriverTable* cu = nullptr;
  cudaError_t error = runtime().bind(&cu);
  return record(error == cudaSuccess ? to_runtime(std::forward<Body>(body)(*cu)) : error);
}
/// The same for what needs an initialised driver but no context.
template <class Body>
cudaError_t with_driver(Body&& body) noexcept {
  const DriverTable* cu = nullptr;
  cudaError_t error = runtime().init(&cu);
  return record(error == cudaSuccess ? to_runtime(std::forward<Body>(body)(*cu)) : error);
}
/// The same for a device given by ordinal: `body(driver, device)`.
template <class Body>
cudaError_t with_device(int ordinal, Body&& body) noexcept {
  return with_driver([&](const DriverTable& cu) {
    CUdevice device = 0;
    cudaError_t error = runtime().device(ordinal, &device);
    return error == cudaSuccess ? to_runtime(body(cu, device)) : error;
  });
}

/// What a runtime of a CUDA version says it is.
constexpr int runtime_version(int major) noexcept {
  return major >= 13 ? CUDART_VERSION : major == 12 ? 12090 : 11080;
}
/// The oldest driver that will do: the version of this library (a libcudart is of one), or of an
/// older static runtime that it took over.
int required_major() noexcept;
/// Takes over a static runtime of that version.
void serve_major(int major) noexcept;

/// An attribute for a struct of many: 0 if the driver is older than the attribute.
inline CUresult attribute_or_zero(const DriverTable& cu, int* value, CUdevice_attribute attribute,
                                  CUdevice device) noexcept {
  CUresult result = cu.cuDeviceGetAttribute(value, attribute, device);
  if (result != CUDA_ERROR_INVALID_VALUE) return result;
  *value = 0;
  return CUDA_SUCCESS;
}

inline CUdeviceptr address(const void* pointer) noexcept {
  return reinterpret_cast<CUdeviceptr>(pointer);
}
inline void* pointer(CUdeviceptr address) noexcept {
  return reinterpret_cast<void*>(address);
}
/// For structs and enums that both APIs declare with the same layout under two names.
template <class To, class From>
To same_layout(From* from) noexcept {
  static_assert(sizeof(*To{}) == sizeof(*from));
  return reinterpret_cast<To>(from);
}

}  // namespace sluice::cudart
