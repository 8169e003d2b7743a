// What the compiler's start-up code registers: images (fatbins), the host addresses of kernels, and
// device variables. Registering makes no driver call; an image is loaded when something of it is
// first needed, and a load that failed is tried again the next time.
#pragma once

#include "shim/cudart/runtime.h"

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace sluice::cudart {

/// One registered image. Its address is the handle that the start-up code keeps.
class Image {
 public:
  explicit Image(const void* wrapper) : wrapper_(wrapper) {}
  /// Loads it on first use. Thread-safe.
  cudaError_t library(const DriverTable& cu, CUlibrary* library) noexcept;
  /// Forgets the library; the driver may already be gone.
  void unload(const DriverTable& cu) noexcept;

 private:
  const void* wrapper_;
  std::mutex mutex_;
  std::atomic<CUlibrary> library_{nullptr};
};

/// A kernel by the address of its host stub.
struct Kernel {
  Image* image;
  std::string name;
  std::atomic<CUkernel> handle{nullptr};
};

struct Variable {
  Image* image;
  std::string name;
  std::size_t bytes;
  void** managed_pointer;  // where the program keeps a managed variable's address, else null
};

/// Thread-safe.
class Registry {
 public:
  Image* add_image(const void* wrapper);
  void remove_image(Image* image) noexcept;
  void add_kernel(Image* image, const void* host, const char* name);
  void add_variable(Image* image, const void* host, Variable variable);

  /// The driver's kernel for a host stub, or for a kernel handle that the application got from us.
  cudaError_t kernel(const DriverTable& cu, const void* function, CUkernel* kernel) noexcept;
  /// The other way: the host stub of a driver's kernel, else the kernel itself, which may then be
  /// given where a host stub is expected.
  const void* host_of(CUkernel kernel) noexcept;
  /// A stand-in for a kernel that cannot be loaded now: launching it tries again. Null if unknown.
  CUkernel deferred(const void* host) noexcept;
  /// The kernel behind a handle that __cudaGetKernel gave: a driver kernel, or a stand-in.
  cudaError_t launchable(const DriverTable& cu, CUkernel handle, CUkernel* kernel) noexcept;
  /// Kernel handles may be passed where a host stub is expected.
  void remember_handle(const void* handle);

  cudaError_t symbol(const DriverTable& cu, const void* host, CUdeviceptr* address,
                     std::size_t* bytes) noexcept;
  /// Gives the managed variables of an image their addresses.
  cudaError_t place_managed(const DriverTable& cu, Image* image) noexcept;

 private:
  Kernel* find_kernel(const void* host) noexcept;
  cudaError_t load_kernel(const DriverTable& cu, Kernel* kernel, CUkernel* handle) noexcept;

  std::shared_mutex mutex_;
  std::vector<std::unique_ptr<Image>> images_;
  std::unordered_map<const void*, std::unique_ptr<Kernel>> kernels_;
  std::unordered_map<const void*, Variable> variables_;
  std::unordered_set<const void*> handles_;
};

Registry& registry() noexcept;

}  // namespace sluice::cudart
