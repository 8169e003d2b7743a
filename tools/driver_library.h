// A libcuda.so.1 by path, for tools that measure what calls through it take.
#pragma once

#include <cuda.h>
#include <dlfcn.h>

#include <string>

namespace sluice::tool {

class DriverLibrary {
 public:
  explicit DriverLibrary(const std::string& path)
      : library_(::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (library_ == nullptr) problem_ = ::dlerror();
  }
  /// Why it could not be loaded.
  [[nodiscard]] const std::string& problem() const { return problem_; }
  /// Null if it has no such name.
  template <class Function>
  Function find(const char* name) const {
    return library_ == nullptr ? nullptr : reinterpret_cast<Function>(::dlsym(library_, name));
  }
  template <class... Params, class... Args>
  CUresult call(const char* name, CUresult (*)(Params...), Args... args) const {
    const auto function = find<CUresult (*)(Params...)>(name);
    return function == nullptr ? CUDA_ERROR_NOT_FOUND : function(args...);
  }

 private:
  void* library_;
  std::string problem_;
};

}  // namespace sluice::tool

#define SLUICE_NAME_OF_(name) #name
#define SLUICE_NAME_OF(name) \
  SLUICE_NAME_OF_(name)  // as cuda.h maps it: cuMemAlloc is cuMemAlloc_v2
#define SLUICE_DRIVER_CALL(driver, name, ...) \
  (driver).call(SLUICE_NAME_OF(name), &::name, __VA_ARGS__)
