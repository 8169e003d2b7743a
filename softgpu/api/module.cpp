// Modules and libraries: both are a LoadedModule, loaded whole; kernels compile at their first
// launch.
#include "common/log.h"
#include "softgpu/api/image.h"
#include "softgpu/api/jit_logs.h"
#include "softgpu/api/state.h"
#include "softgpu/api/strict.h"

#include <cstring>
#include <fstream>
#include <sstream>

namespace sluice::softgpu {

LoadedModule::~LoadedModule() {
  for (const auto& [name, where] : globals) device->arena->free(where.at);
  device->arena->account().refund(code_bytes);
}

namespace {

int arch_of(const Device& device) {
  bool known = false;
  return device_attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &known) * 10 +
         device_attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &known);
}

CUresult place_globals(LoadedModule& module, void* owner) {
  for (const GlobalVariable& g : module.program->globals()) {
    const auto at = module.device->arena->allocate(std::max<std::size_t>(g.size_bytes, 1), owner);
    if (!at) return CUDA_ERROR_OUT_OF_MEMORY;
    module.globals[g.name] = {*at, g.size_bytes};
    std::memset(reinterpret_cast<void*>(*at), 0, g.size_bytes);
    std::memcpy(reinterpret_cast<void*>(*at), g.init.data(), g.init.size());
    module.program->set_address(g.name, reinterpret_cast<void*>(*at));
  }
  for (const GlobalVariable& g : module.program->globals())
    for (const auto& r : g.relocations) {
      const auto target = module.globals.find(r.symbol);
      if (target == module.globals.end()) return CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND;
      const std::uint64_t value = target->second.at + static_cast<std::uint64_t>(r.addend);
      std::memcpy(reinterpret_cast<void*>(module.globals[g.name].at + r.offset_bytes), &value,
                  sizeof value);
    }
  return CUDA_SUCCESS;
}

/// What a load function was given; `bytes` is SIZE_MAX for an address of the program's.
struct Image {
  const void* data;
  std::size_t bytes;
};

CUresult load(const Image& image, Device* device, void* owner, const JitLogs& logs,
              std::shared_ptr<LoadedModule>* out) {
  std::string ptx;
  SOFTGPU_CHECK(ptx_of_image(image.data, arch_of(*device), &ptx, image.bytes));
  auto program = Program::load(ptx);
  if (!program) {
    logs.fail("softgpu: " + program.error().log + "\n");
    SLUICE_LOG_INFO("softgpu", "PTX refused: {}", program.error().log);
    switch (program.error().failure) {
      case LoadFailure::kInvalidPtx:
        return CUDA_ERROR_INVALID_PTX;
      case LoadFailure::kUnsupportedVersion:
        return CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
      case LoadFailure::kUnresolvedSymbol:
        return CUDA_ERROR_INVALID_PTX;
    }
  }
  auto module = std::make_shared<LoadedModule>();
  module->device = device;
  module->owner = owner;
  module->program = std::move(*program);
  SOFTGPU_CHECK(place_globals(*module, owner));
  *out = std::move(module);
  return CUDA_SUCCESS;
}

CUresult kernel_of(const std::shared_ptr<LoadedModule>& module, const char* name, CUfunction* out) {
  const std::lock_guard lock(module->mutex);
  const auto known = module->functions.find(name);
  if (known != module->functions.end()) {
    *out = known->second;
    return CUDA_SUCCESS;
  }
  const auto& kernels = module->program->kernels();
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    if (kernels[i].name != name) continue;
    auto kernel = std::make_shared<Kernel>();
    kernel->module = module;
    kernel->index = i;
    // Without opting in, static and dynamic shared memory share 48 KiB.
    kernel->max_dynamic_shared_bytes =
        std::max(0, 48 * 1024 - static_cast<int>(kernels[i].static_shared_bytes));
    *out = module->functions[name] = state().kernels.add(std::move(kernel));
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_NOT_FOUND;
}

CUresult global_of(const LoadedModule& module, const char* name, CUdeviceptr* at,
                   std::size_t* bytes) {
  const auto found = module.globals.find(name);
  if (found == module.globals.end()) return CUDA_ERROR_NOT_FOUND;
  if (at != nullptr) *at = found->second.at;
  if (bytes != nullptr) *bytes = found->second.bytes;
  return CUDA_SUCCESS;
}

void forget_kernels(LoadedModule& module) {
  std::map<std::string, CUfunction> functions;
  {
    const std::lock_guard lock(module.mutex);
    functions.swap(module.functions);  // the kernels hold the module: it would never die
  }
  for (const auto& [name, handle] : functions) state().kernels.remove(handle);
}

CUresult read_file(const char* path, std::string* out) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return CUDA_ERROR_FILE_NOT_FOUND;
  std::stringstream text;
  text << file.rdbuf();
  *out = text.str();
  return CUDA_SUCCESS;
}

Device* library_device() {
  auto& stack = context_stack();
  const auto context = stack.empty() ? nullptr : state().contexts.find(stack.back());
  return context != nullptr ? context->device : state().devices.front().get();
}

void wait_everywhere(LoadedModule& module) {
  std::shared_ptr<Context> context;
  static_cast<void>(module);
  if (current(&context) != CUDA_SUCCESS) return;
  // Kernels keep their module until they end: an endless one does not keep the program here.
  const std::vector<OperationPtr> work = pending(*context);
  if (wait_until(work, std::chrono::steady_clock::now() + kPatience)) wait_all(*context, work);
}

}  // namespace
}  // namespace sluice::softgpu

using namespace sluice::softgpu;

namespace {

CUresult load_module(CUmodule* out, const Image& image, const JitLogs& logs) {
  std::shared_ptr<Context> context;
  SOFTGPU_CHECK(current(&context));
  // A driver may wait for the device before it places code.
  if (is_strict()) SOFTGPU_CHECK(wait_all(*context, pending(*context)));
  std::shared_ptr<LoadedModule> module;
  SOFTGPU_CHECK(load(image, context->device, context.get(), logs, &module));
  *out = state().modules.add(std::move(module));
  return CUDA_SUCCESS;
}

CUresult load_library(CUlibrary* out, const Image& image, const JitLogs& logs) {
  std::shared_ptr<LoadedModule> module;
  SOFTGPU_CHECK(load(image, library_device(), nullptr, logs, &module));
  *out = state().libraries.add(std::move(module));
  return CUDA_SUCCESS;
}

}  // namespace

SOFTGPU_API cuModuleLoadDataEx(CUmodule* out, const void* image, unsigned int count,
                               CUjit_option* options, void** values) {
  if (out == nullptr || image == nullptr ||
      (count > 0 && (options == nullptr || values == nullptr)))
    return CUDA_ERROR_INVALID_VALUE;
  return load_module(out, {image, SIZE_MAX}, JitLogs(count, options, values));
}

SOFTGPU_API cuModuleLoadData(CUmodule* out, const void* image) {
  return cuModuleLoadDataEx(out, image, 0, nullptr, nullptr);
}
SOFTGPU_API cuModuleLoadFatBinary(CUmodule* out, const void* image) {
  return cuModuleLoadDataEx(out, image, 0, nullptr, nullptr);
}

SOFTGPU_API cuModuleLoad(CUmodule* out, const char* path) {
  if (out == nullptr || path == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::string image;
  SOFTGPU_CHECK(initialised());
  SOFTGPU_CHECK(read_file(path, &image));
  return load_module(out, {image.data(), image.size()}, JitLogs(0, nullptr, nullptr));
}

SOFTGPU_API cuModuleUnload(CUmodule handle) {
  SOFTGPU_CHECK(initialised());
  const auto module = state().modules.find(handle);
  if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  SOFTGPU_CHECK(check_owner(module->owner));
  wait_everywhere(*module);
  state().modules.remove(handle);
  forget_kernels(*module);
  return CUDA_SUCCESS;
}

SOFTGPU_API cuModuleGetFunction(CUfunction* out, CUmodule handle, const char* name) {
  if (out == nullptr || name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  SOFTGPU_CHECK(initialised());
  const auto module = state().modules.find(handle);
  if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  SOFTGPU_CHECK(check_owner(module->owner));
  return kernel_of(module, name, out);
}

SOFTGPU_API cuModuleGetFunctionCount(unsigned int* count, CUmodule handle) {
  const auto module = state().modules.find(handle);
  if (count == nullptr || module == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *count = static_cast<unsigned>(module->program->kernels().size());
  return CUDA_SUCCESS;
}

SOFTGPU_API cuModuleEnumerateFunctions(CUfunction* out, unsigned int count, CUmodule handle) {
  const auto module = state().modules.find(handle);
  if (out == nullptr || module == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto& kernels = module->program->kernels();
  for (std::size_t i = 0; i < count && i < kernels.size(); ++i)
    SOFTGPU_CHECK(kernel_of(module, kernels[i].name.c_str(), &out[i]));
  return CUDA_SUCCESS;
}

SOFTGPU_API cuModuleGetGlobal_v2(CUdeviceptr* at, size_t* bytes, CUmodule handle,
                                 const char* name) {
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  SOFTGPU_CHECK(initialised());
  const auto module = state().modules.find(handle);
  if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  SOFTGPU_CHECK(check_owner(module->owner));
  return global_of(*module, name, at, bytes);
}

SOFTGPU_API cuModuleGetLoadingMode(CUmoduleLoadingMode* mode) {
  if (mode == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *mode = CU_MODULE_LAZY_LOADING;
  return CUDA_SUCCESS;
}

SOFTGPU_API cuLibraryLoadData(CUlibrary* out, const void* code, CUjit_option* options,
                              void** values, unsigned int count, CUlibraryOption*, void**,
                              unsigned int) {
  if (out == nullptr || code == nullptr || (count > 0 && (options == nullptr || values == nullptr)))
    return CUDA_ERROR_INVALID_VALUE;
  SOFTGPU_CHECK(initialised());
  return load_library(out, {code, SIZE_MAX}, JitLogs(count, options, values));
}

SOFTGPU_API cuLibraryLoadFromFile(CUlibrary* out, const char* path, CUjit_option* options,
                                  void** values, unsigned int count, CUlibraryOption*, void**,
                                  unsigned int) {
  if (out == nullptr || path == nullptr || (count > 0 && (options == nullptr || values == nullptr)))
    return CUDA_ERROR_INVALID_VALUE;
  SOFTGPU_CHECK(initialised());
  std::string image;
  SOFTGPU_CHECK(read_file(path, &image));
  return load_library(out, {image.data(), image.size()}, JitLogs(count, options, values));
}

SOFTGPU_API cuLibraryUnload(CUlibrary handle) {
  SOFTGPU_CHECK(initialised());
  const auto module = state().libraries.find(handle);
  if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  wait_everywhere(*module);
  state().libraries.remove(handle);
  forget_kernels(*module);
  return CUDA_SUCCESS;
}

SOFTGPU_API cuLibraryGetKernel(CUkernel* out, CUlibrary handle, const char* name) {
  if (out == nullptr || name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  SOFTGPU_CHECK(initialised());
  const auto module = state().libraries.find(handle);
  return module != nullptr ? kernel_of(module, name, reinterpret_cast<CUfunction*>(out))
                           : CUDA_ERROR_INVALID_HANDLE;
}

SOFTGPU_API cuLibraryGetKernelCount(unsigned int* count, CUlibrary handle) {
  const auto module = state().libraries.find(handle);
  if (count == nullptr || module == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *count = static_cast<unsigned>(module->program->kernels().size());
  return CUDA_SUCCESS;
}

SOFTGPU_API cuLibraryGetGlobal(CUdeviceptr* at, size_t* bytes, CUlibrary handle, const char* name) {
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  SOFTGPU_CHECK(initialised());
  const auto module = state().libraries.find(handle);
  return module != nullptr ? global_of(*module, name, at, bytes) : CUDA_ERROR_INVALID_HANDLE;
}

SOFTGPU_API cuLibraryGetModule(CUmodule* out, CUlibrary handle) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto module = state().libraries.find(handle);
  if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *out = state().modules.add(module);
  return CUDA_SUCCESS;
}

SOFTGPU_API cuKernelGetFunction(CUfunction* out, CUkernel kernel) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = reinterpret_cast<CUfunction>(kernel);
  return state().kernels.find(kernel) != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

SOFTGPU_API cuLibraryEnumerateKernels(CUkernel* out, unsigned int count, CUlibrary handle) {
  const auto module = state().libraries.find(handle);
  if (out == nullptr || module == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto& kernels = module->program->kernels();
  for (std::size_t i = 0; i < count && i < kernels.size(); ++i)
    SOFTGPU_CHECK(
        kernel_of(module, kernels[i].name.c_str(), reinterpret_cast<CUfunction*>(&out[i])));
  return CUDA_SUCCESS;
}

SOFTGPU_API cuKernelGetLibrary(CUlibrary* out, CUkernel handle) {
  const auto kernel = state().kernels.find(handle);
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (kernel == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *out = reinterpret_cast<CUlibrary>(kernel->module.get());
  return state().libraries.find(*out) != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

SOFTGPU_API cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache, CUdevice) {
  return state().kernels.find(kernel) != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

SOFTGPU_API cuFuncIsLoaded(CUfunctionLoadingState* out, CUfunction f) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = CU_FUNCTION_LOADING_STATE_LOADED;
  return state().kernels.find(f) != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
SOFTGPU_API cuFuncLoad(CUfunction f) {
  return state().kernels.find(f) != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
