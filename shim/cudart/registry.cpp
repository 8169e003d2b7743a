#include "shim/cudart/registry.h"

#include <algorithm>

namespace sluice::cudart {
namespace {

// Kernel objects of drivers are not at odd addresses; ours never are. An odd handle that is none of
// ours is still passed on: some drivers number their objects.
constexpr std::uintptr_t kDeferredTag = 1;

}  // namespace

Registry& registry() noexcept {
  // Leaked on purpose: images are unregistered while static objects are being destroyed.
  static Registry* const instance = new Registry;
  return *instance;
}

cudaError_t Image::library(const DriverTable& cu, CUlibrary* library) noexcept {
  *library = library_.load(std::memory_order_acquire);
  if (*library != nullptr) return cudaSuccess;
  std::lock_guard lock(mutex_);
  *library = library_.load(std::memory_order_relaxed);
  if (*library != nullptr) return cudaSuccess;
  CUresult result =
      cu.cuLibraryLoadData(library, wrapper_, nullptr, nullptr, 0, nullptr, nullptr, 0);
  if (result == CUDA_SUCCESS) library_.store(*library, std::memory_order_release);
  return to_runtime(result);
}

void Image::unload(const DriverTable& cu) noexcept {
  std::lock_guard lock(mutex_);
  CUlibrary library = library_.exchange(nullptr, std::memory_order_acq_rel);
  if (library != nullptr) (void)cu.cuLibraryUnload(library);
}

Image* Registry::add_image(const void* wrapper) {
  std::unique_lock lock(mutex_);
  return images_.emplace_back(std::make_unique<Image>(wrapper)).get();
}

void Registry::remove_image(Image* image) noexcept {
  const DriverTable* cu = nullptr;
  // Only what was loaded needs the driver; a process that never used CUDA must not load it now.
  std::unique_lock lock(mutex_);
  auto found = std::find_if(images_.begin(), images_.end(),
                            [&](const auto& entry) { return entry.get() == image; });
  if (found == images_.end()) return;
  std::erase_if(kernels_, [&](const auto& entry) { return entry.second->image == image; });
  std::erase_if(variables_, [&](const auto& entry) { return entry.second.image == image; });
  std::unique_ptr<Image> gone = std::move(*found);
  images_.erase(found);
  lock.unlock();
  if (runtime().loaded(&cu)) gone->unload(*cu);
}

void Registry::add_kernel(Image* image, const void* host, const char* name) {
  auto kernel = std::make_unique<Kernel>();
  kernel->image = image;
  kernel->name = name;
  std::unique_lock lock(mutex_);
  kernels_[host] = std::move(kernel);
}

void Registry::add_variable(Image* image, const void* host, Variable variable) {
  variable.image = image;
  std::unique_lock lock(mutex_);
  variables_[host] = std::move(variable);
}

Kernel* Registry::find_kernel(const void* host) noexcept {
  std::shared_lock lock(mutex_);
  auto found = kernels_.find(host);
  return found != kernels_.end() ? found->second.get() : nullptr;
}

cudaError_t Registry::load_kernel(const DriverTable& cu, Kernel* kernel,
                                  CUkernel* handle) noexcept {
  *handle = kernel->handle.load(std::memory_order_acquire);
  if (*handle != nullptr) return cudaSuccess;
  CUlibrary library = nullptr;
  if (cudaError_t error = kernel->image->library(cu, &library); error != cudaSuccess) return error;
  CUresult result = cu.cuLibraryGetKernel(handle, library, kernel->name.c_str());
  if (result == CUDA_ERROR_NOT_FOUND) return cudaErrorInvalidDeviceFunction;
  if (result == CUDA_SUCCESS) kernel->handle.store(*handle, std::memory_order_release);
  return to_runtime(result);
}

cudaError_t Registry::kernel(const DriverTable& cu, const void* function,
                             CUkernel* kernel) noexcept {
  if (Kernel* entry = find_kernel(function)) return load_kernel(cu, entry, kernel);
  std::shared_lock lock(mutex_);
  if (!handles_.contains(function)) return cudaErrorInvalidDeviceFunction;
  *kernel = static_cast<CUkernel>(const_cast<void*>(function));
  return cudaSuccess;
}

const void* Registry::host_of(CUkernel kernel) noexcept {
  {
    std::shared_lock lock(mutex_);
    for (const auto& [host, entry] : kernels_)
      if (entry->handle.load(std::memory_order_acquire) == kernel) return host;
  }
  remember_handle(kernel);
  return kernel;
}

CUkernel Registry::deferred(const void* host) noexcept {
  Kernel* entry = find_kernel(host);
  if (entry == nullptr) return nullptr;
  return reinterpret_cast<CUkernel>(reinterpret_cast<std::uintptr_t>(entry) | kDeferredTag);
}

cudaError_t Registry::launchable(const DriverTable& cu, CUkernel handle,
                                 CUkernel* kernel) noexcept {
  *kernel = handle;
  if (handle == nullptr) return cudaErrorInvalidDeviceFunction;
  const auto bits = reinterpret_cast<std::uintptr_t>(handle);
  if ((bits & kDeferredTag) == 0) return cudaSuccess;
  Kernel* entry = nullptr;
  {
    const auto* wanted = reinterpret_cast<const Kernel*>(bits & ~kDeferredTag);
    std::shared_lock lock(mutex_);
    for (const auto& [host, candidate] : kernels_)
      if (candidate.get() == wanted) entry = candidate.get();
  }
  return entry != nullptr ? load_kernel(cu, entry, kernel) : cudaSuccess;
}

void Registry::remember_handle(const void* handle) {
  std::unique_lock lock(mutex_);
  handles_.insert(handle);
}

cudaError_t Registry::symbol(const DriverTable& cu, const void* host, CUdeviceptr* address,
                             std::size_t* bytes) noexcept {
  Variable variable{};
  {
    std::shared_lock lock(mutex_);
    auto found = variables_.find(host);
    // A managed variable is named by its own address, which the program reads from its pointer.
    if (found == variables_.end())
      found = std::find_if(variables_.begin(), variables_.end(), [&](const auto& entry) {
        return entry.second.managed_pointer != nullptr && *entry.second.managed_pointer == host;
      });
    if (found == variables_.end()) return cudaErrorInvalidSymbol;
    variable = found->second;
  }
  CUlibrary library = nullptr;
  if (cudaError_t error = variable.image->library(cu, &library); error != cudaSuccess) return error;
  CUresult result = variable.managed_pointer != nullptr
                        ? cu.cuLibraryGetManaged(address, bytes, library, variable.name.c_str())
                        : cu.cuLibraryGetGlobal(address, bytes, library, variable.name.c_str());
  return result == CUDA_ERROR_NOT_FOUND ? cudaErrorInvalidSymbol : to_runtime(result);
}

cudaError_t Registry::place_managed(const DriverTable& cu, Image* image) noexcept {
  std::vector<Variable> managed;
  {
    std::shared_lock lock(mutex_);
    for (const auto& [host, variable] : variables_)
      if (variable.image == image && variable.managed_pointer != nullptr)
        managed.push_back(variable);
  }
  if (managed.empty()) return cudaSuccess;
  CUlibrary library = nullptr;
  if (cudaError_t error = image->library(cu, &library); error != cudaSuccess) return error;
  for (const Variable& variable : managed) {
    CUdeviceptr address = 0;
    std::size_t bytes = 0;
    CUresult result = cu.cuLibraryGetManaged(&address, &bytes, library, variable.name.c_str());
    if (result != CUDA_SUCCESS) return to_runtime(result);
    *variable.managed_pointer = pointer(address);
  }
  return cudaSuccess;
}

}  // namespace sluice::cudart
