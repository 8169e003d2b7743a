#include "shim/cudart/runtime.h"

#include "common/log.h"

#include <dlfcn.h>

#include <cstring>

namespace sluice::cudart {
namespace {

constexpr std::chrono::milliseconds kRetryAfter{200};

thread_local constinit ThreadState t_state{};

CUresult absent_function() noexcept {
  return CUDA_ERROR_NOT_SUPPORTED;
}

// A driver older than our headers lacks functions: calling one must be an error, not a crash. The
// table is nothing but function pointers, so it can be walked as an array of them.
void fill_absent(DriverTable* table) noexcept {
  using Function = CUresult (*)();
  static_assert(sizeof(DriverTable) % sizeof(Function) == 0);
  auto* bytes = reinterpret_cast<unsigned char*>(table);
  const Function stand_in = &absent_function;
  for (std::size_t at = 0; at < sizeof(DriverTable); at += sizeof(Function)) {
    Function function = nullptr;
    std::memcpy(&function, bytes + at, sizeof function);
    if (function == nullptr) std::memcpy(bytes + at, &stand_in, sizeof stand_in);
  }
}

}  // namespace

ThreadState& thread_state() noexcept {
  return t_state;
}

Runtime& runtime() noexcept {
  // Leaked on purpose: see the class.
  static Runtime* const instance = new Runtime;
  return *instance;
}

cudaError_t Runtime::load(const DriverTable** cu) noexcept {
  *cu = &table_;
  if (is_loaded_.load(std::memory_order_acquire)) return cudaSuccess;
  std::lock_guard lock(mutex_);
  return load_locked();
}

cudaError_t Runtime::load_locked() noexcept {
  if (is_loaded_.load(std::memory_order_relaxed)) return cudaSuccess;
  log_open_from_environment("cudart", LogLevel::kWarn);
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    SLUICE_LOG_INFO("shim", "there is no CUDA driver: {}", dlerror());
    return cudaErrorInsufficientDriver;
  }
  if (Status status = load_driver_table(library, &table_); !status) {
    SLUICE_LOG_ERROR("shim", "libcuda.so.1 is unusable: {}", status.error().message);
    return cudaErrorInsufficientDriver;
  }
  fill_absent(&table_);
  is_loaded_.store(true, std::memory_order_release);
  return cudaSuccess;
}

cudaError_t Runtime::init(const DriverTable** cu) noexcept {
  *cu = &table_;
  if (is_ready_.load(std::memory_order_acquire)) return cudaSuccess;
  std::lock_guard lock(mutex_);
  // Another thread may have been first.
  if (is_ready_.load(std::memory_order_relaxed)) return cudaSuccess;
  if (std::chrono::steady_clock::now() < retry_at_) return init_error_;
  init_error_ = init_locked();
  if (init_error_ == cudaSuccess) is_ready_.store(true, std::memory_order_release);
  retry_at_ = std::chrono::steady_clock::now() + kRetryAfter;
  return init_error_;
}

cudaError_t Runtime::init_locked() noexcept {
  if (cudaError_t error = load_locked(); error != cudaSuccess) return error;
  int version = 0;
  if (table_.cuDriverGetVersion(&version) == CUDA_SUCCESS && version / 1000 < required_major()) {
    SLUICE_LOG_ERROR("shim", "the driver is for CUDA {}.{}, this runtime needs {}.0",
                     version / 1000, version % 1000 / 10, required_major());
    return cudaErrorInsufficientDriver;
  }
  if (CUresult result = table_.cuInit(0); result != CUDA_SUCCESS) return to_runtime(result);
  int count = 0;
  if (CUresult result = table_.cuDeviceGetCount(&count); result != CUDA_SUCCESS)
    return to_runtime(result);
  if (count <= 0) return cudaErrorNoDevice;
  devices_.resize(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i)
    if (CUresult result = table_.cuDeviceGet(&devices_[static_cast<std::size_t>(i)].device, i);
        result != CUDA_SUCCESS)
      return to_runtime(result);
  return cudaSuccess;
}

cudaError_t Runtime::bind_context(const DriverTable& cu) noexcept {
  CUcontext current = nullptr;
  if (CUresult result = cu.cuCtxGetCurrent(&current); result != CUDA_SUCCESS)
    return to_runtime(result);
  const ThreadState& thread = t_state;
  // A context that we did not bind is the application's own and stays; ours is stale after a reset.
  if (current != nullptr &&
      (current != thread.bound || thread.generation == generation_.load(std::memory_order_acquire)))
    return cudaSuccess;
  return select(cu, thread.device_plus_one ? static_cast<int>(thread.device_plus_one) - 1
                                           : default_ordinal());
}

int Runtime::default_ordinal() noexcept {
  return first_valid_.load(std::memory_order_relaxed);
}

cudaError_t Runtime::device(int ordinal, CUdevice* device) const noexcept {
  if (ordinal < 0 || ordinal >= device_count()) return cudaErrorInvalidDevice;
  *device = devices_[static_cast<std::size_t>(ordinal)].device;
  return cudaSuccess;
}

int Runtime::ordinal_of(CUdevice device) const noexcept {
  for (std::size_t i = 0; i < devices_.size(); ++i)
    if (devices_[i].device == device) return static_cast<int>(i);
  return -1;
}

int Runtime::current_ordinal(const DriverTable& cu) noexcept {
  CUcontext current = nullptr;
  CUdevice device = 0;
  if (cu.cuCtxGetCurrent(&current) == CUDA_SUCCESS && current != nullptr &&
      cu.cuCtxGetDevice(&device) == CUDA_SUCCESS)
    if (int ordinal = ordinal_of(device); ordinal >= 0) return ordinal;
  const std::uint32_t chosen = t_state.device_plus_one;
  return chosen ? static_cast<int>(chosen) - 1 : default_ordinal();
}

cudaError_t Runtime::primary(const DriverTable& cu, int ordinal, CUcontext* context) noexcept {
  if (ordinal < 0 || ordinal >= device_count()) return cudaErrorInvalidDevice;
  std::lock_guard lock(mutex_);
  Device& device = devices_[static_cast<std::size_t>(ordinal)];
  if (device.primary == nullptr) {
    // Held under the lock on purpose: two first calls must not retain twice.
    if (CUresult result = cu.cuDevicePrimaryCtxRetain(&device.primary, device.device);
        result != CUDA_SUCCESS) {
      device.primary = nullptr;
      return to_runtime(result);
    }
  }
  *context = device.primary;
  return cudaSuccess;
}

cudaError_t Runtime::select(const DriverTable& cu, int ordinal) noexcept {
  const std::uint32_t generation = generation_.load(std::memory_order_acquire);
  CUcontext context = nullptr;
  if (cudaError_t error = primary(cu, ordinal, &context); error != cudaSuccess) return error;
  if (CUresult result = cu.cuCtxSetCurrent(context); result != CUDA_SUCCESS)
    return to_runtime(result);
  t_state.bound = context;
  t_state.generation = generation;
  t_state.device_plus_one = static_cast<std::uint32_t>(ordinal) + 1;
  return cudaSuccess;
}

cudaError_t Runtime::reset(const DriverTable& cu, int ordinal) noexcept {
  CUdevice handle = 0;
  if (cudaError_t error = device(ordinal, &handle); error != cudaSuccess) return error;
  std::lock_guard lock(mutex_);
  Device& entry = devices_[static_cast<std::size_t>(ordinal)];
  generation_.fetch_add(1, std::memory_order_acq_rel);
  CUresult result = cu.cuDevicePrimaryCtxReset_v2(handle);
  if (entry.primary != nullptr) {
    CUresult released = cu.cuDevicePrimaryCtxRelease_v2(handle);
    // The reset may have taken our reference with it.
    if (result == CUDA_SUCCESS && released != CUDA_ERROR_INVALID_CONTEXT) result = released;
    entry.primary = nullptr;
  }
  if (CUcontext current = nullptr;
      cu.cuCtxGetCurrent(&current) == CUDA_SUCCESS && current == t_state.bound)
    (void)cu.cuCtxSetCurrent(nullptr);
  t_state.bound = nullptr;
  return to_runtime(result);
}

cudaError_t Runtime::set_valid(const int* ordinals, int count) noexcept {
  for (int i = 0; i < count; ++i)
    if (ordinals[i] < 0 || ordinals[i] >= device_count()) return cudaErrorInvalidDevice;
  first_valid_.store(count > 0 ? ordinals[0] : 0, std::memory_order_relaxed);
  return cudaSuccess;
}

}  // namespace sluice::cudart
