// Libraries: loaded without a context, their kernels usable in all.
#include "protocol/library.h"

#include "shim/load.h"

using namespace sluice;
using namespace sluice::shim;

namespace {

CUresult ask_to_load(std::span<const std::byte> image, JitOptions& options,
                     wire::library_load& args) {
  if (const CUresult failed = send_image(image, &args.upload)) return failed;
  args.library = reserve_id();
  args.options_bytes = options.wire_bytes().size();
  args.info_log_bytes_max = options.info_bytes_max();
  args.error_log_bytes_max = options.error_bytes_max();
  wire::library_load::Reply reply{};
  return call(args, reply, {options.wire_bytes()}, {options.info_out(), options.error_out()});
}

CUresult load_library(CUlibrary* out, std::span<const std::byte> image, JitOptions& options) {
  wire::library_load args{};
  const CUresult result = load_with_spare([&] { return ask_to_load(image, options, args); });
  options.write_back();
  if (result != CUDA_SUCCESS) return result;
  Entry entry;
  entry.id = args.library;
  entry.object = new Image;
  static_cast<Image*>(entry.object)->id = args.library;
  *out = new_handle<CUlibrary>(entry);
  return *out != nullptr ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult fetch_kernel(CUlibrary library, const Image& image, const char* name, CUkernel* out) {
  wire::library_get_kernel args{};
  const Bytes name_bytes = string_bytes(name);
  args.library = image.id;
  args.kernel = reserve_id();
  args.name_bytes = name_bytes.size();
  wire::library_get_kernel::Reply reply{};
  CallableReply details;
  if (const CUresult failed =
          call(args, reply, {name_bytes}, {details.layout_out(), details.attributes_out()}))
    return failed;
  auto made = std::make_unique<Callable>();
  made->id = args.kernel;
  made->name = name;
  made->library = library;
  made->is_kernel = true;
  if (!details.fill(*made)) return CUDA_ERROR_UNKNOWN;
  Entry entry;
  entry.id = args.kernel;
  entry.object = made.release();
  *out = new_handle<CUkernel>(entry);
  return CUDA_SUCCESS;
}

}  // namespace

SLUICE_API cuLibraryLoadData(CUlibrary* library, const void* code, CUjit_option* jitOptions,
                             void** jitOptionsValues, unsigned int numJitOptions,
                             CUlibraryOption* libraryOptions, void** libraryOptionValues,
                             unsigned int numLibraryOptions) {
  if (const CUresult refused = enter_needing(wire::Fn::cuLibraryLoadData, wire::Needs::kInit))
    return refused;
  if (library == nullptr || code == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (numLibraryOptions > 0 && (libraryOptions == nullptr || libraryOptionValues == nullptr))
    return CUDA_ERROR_INVALID_VALUE;
  // The library options are promises about how long the host's copy stays and hints: we keep a copy
  // anyway.
  JitOptions jit;
  if (const CUresult bad = jit.read(numJitOptions, jitOptions, jitOptionsValues)) return bad;
  const auto bytes = image_bytes(code);
  return bytes ? load_library(library, *bytes, jit) : image_error(bytes.error());
}

SLUICE_API cuLibraryLoadFromFile(CUlibrary* library, const char* fileName, CUjit_option* jitOptions,
                                 void** jitOptionsValues, unsigned int numJitOptions,
                                 CUlibraryOption*, void**, unsigned int) {
  if (const CUresult refused = enter_needing(wire::Fn::cuLibraryLoadFromFile, wire::Needs::kInit))
    return refused;
  if (library == nullptr || fileName == nullptr) return CUDA_ERROR_INVALID_VALUE;
  JitOptions jit;
  if (const CUresult bad = jit.read(numJitOptions, jitOptions, jitOptionsValues)) return bad;
  const auto data = read_image_file(fileName);
  if (!data) return image_error(data.error());
  const auto bytes = image_bytes(data->data());
  if (!bytes || bytes->size() > data->size()) return CUDA_ERROR_INVALID_IMAGE;
  return load_library(library, *bytes, jit);
}

SLUICE_API cuLibraryUnload(CUlibrary library) {
  if (const CUresult refused = enter_needing(wire::Fn::cuLibraryUnload, wire::Needs::kInit))
    return refused;
  Entry entry;
  if (!handles().remove(Kind::kLibrary, handle_bits(library), &entry))
    return CUDA_ERROR_INVALID_HANDLE;
  forget_contents(*static_cast<Image*>(entry.object));
  drop_object(Kind::kLibrary, entry);
  wire::cuLibraryUnload args{};
  args.library = entry.id;
  return post(args);
}

SLUICE_API cuLibraryGetKernel(CUkernel* pKernel, CUlibrary library, const char* name) {
  if (const CUresult refused = enter_needing(wire::Fn::cuLibraryGetKernel, wire::Needs::kInit))
    return refused;
  if (pKernel == nullptr || name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  auto* image = object_of<Image>(library);
  if (image == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  std::lock_guard lock(image->mutex);
  const auto known = image->callables.find(name);
  if (known != image->callables.end()) {
    *pKernel = reinterpret_cast<CUkernel>(known->second);
    return CUDA_SUCCESS;
  }
  if (const CUresult failed = fetch_kernel(library, *image, name, pKernel)) return failed;
  image->callables.emplace(name, handle_bits(*pKernel));
  return CUDA_SUCCESS;
}

SLUICE_API cuLibraryGetModule(CUmodule* pMod, CUlibrary library) {
  if (const CUresult refused = enter_needing(wire::Fn::cuLibraryGetModule, wire::Needs::kContext))
    return refused;
  if (pMod == nullptr) return CUDA_ERROR_INVALID_VALUE;
  auto* image = object_of<Image>(library);
  if (image == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  std::lock_guard lock(image->mutex);
  CUmodule& known = image->modules[current_context()->serial];
  if (known == nullptr || object_of<Image>(known) == nullptr) {
    wire::library_get_module args{};
    args.library = image->id;
    args.module = reserve_id();
    wire::library_get_module::Reply reply{};
    if (const CUresult failed = call(args, reply)) return failed;
    Entry entry;
    entry.id = args.module;
    entry.object = new Image;
    static_cast<Image*>(entry.object)->id = args.module;
    entry.owner = current_context()->serial;
    known = new_handle<CUmodule>(entry);
  }
  *pMod = known;
  return CUDA_SUCCESS;
}

SLUICE_API cuLibraryGetGlobal(CUdeviceptr* dptr, size_t* bytes, CUlibrary library,
                              const char* name) {
  if (const CUresult refused = enter(wire::Fn::cuLibraryGetGlobal)) return refused;
  if (current_context() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (name == nullptr || (dptr == nullptr && bytes == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  auto* image = object_of<Image>(library);
  if (image == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  wire::cuLibraryGetGlobal args{};
  const Bytes name_bytes = string_bytes(name);
  args.library = image->id;
  args.name_bytes = name_bytes.size();
  wire::cuLibraryGetGlobal::Reply reply{};
  if (const CUresult failed = call(args, reply, {name_bytes})) return failed;
  remember_variable(*image, reply.dptr, reply.bytes);
  if (dptr != nullptr) *dptr = reply.dptr;
  if (bytes != nullptr) *bytes = reply.bytes;
  return CUDA_SUCCESS;
}

SLUICE_API cuKernelGetFunction(CUfunction* pFunc, CUkernel kernel) {
  if (const CUresult refused = enter_needing(wire::Fn::cuKernelGetFunction, wire::Needs::kContext))
    return refused;
  if (pFunc == nullptr) return CUDA_ERROR_INVALID_VALUE;
  auto* callable = object_of<Callable>(kernel);
  if (callable == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return function_of_kernel(*callable, pFunc);
}

SLUICE_API cuKernelGetLibrary(CUlibrary* pLib, CUkernel kernel) {
  if (const CUresult refused = enter_needing(wire::Fn::cuKernelGetLibrary, wire::Needs::kInit))
    return refused;
  if (pLib == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto* callable = object_of<Callable>(kernel);
  if (callable == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *pLib = callable->library;
  return CUDA_SUCCESS;
}

SLUICE_API cuKernelGetName(const char** name, CUkernel hfunc) {
  if (const CUresult refused = enter_needing(wire::Fn::cuKernelGetName, wire::Needs::kInit))
    return refused;
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto* callable = object_of<Callable>(hfunc);
  if (callable == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *name = callable->name.c_str();
  return CUDA_SUCCESS;
}

SLUICE_API cuKernelGetParamInfo(CUkernel kernel, size_t paramIndex, size_t* paramOffset,
                                size_t* paramSize) {
  if (const CUresult refused = enter_needing(wire::Fn::cuKernelGetParamInfo, wire::Needs::kInit))
    return refused;
  const auto* callable = object_of<Callable>(kernel);
  if (callable == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (paramOffset == nullptr || paramIndex >= callable->layout.size())
    return CUDA_ERROR_INVALID_VALUE;
  *paramOffset = callable->layout[paramIndex].offset;
  if (paramSize != nullptr) *paramSize = callable->layout[paramIndex].size;
  return CUDA_SUCCESS;
}

SLUICE_API cuKernelGetAttribute(int* pi, CUfunction_attribute attrib, CUkernel kernel,
                                CUdevice dev) {
  if (const CUresult refused = enter_needing(wire::Fn::cuKernelGetAttribute, wire::Needs::kInit))
    return refused;
  if (pi == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!session().devices().has(dev)) return CUDA_ERROR_INVALID_DEVICE;
  auto* callable = object_of<Callable>(kernel);
  if (callable == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return callable->attribute(attrib, pi) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SLUICE_API cuKernelSetAttribute(CUfunction_attribute attrib, int val, CUkernel kernel,
                                CUdevice dev) {
  if (const CUresult refused = enter_needing(wire::Fn::cuKernelSetAttribute, wire::Needs::kInit))
    return refused;
  if (!session().devices().has(dev)) return CUDA_ERROR_INVALID_DEVICE;
  auto* callable = object_of<Callable>(kernel);
  if (callable == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  wire::cuKernelSetAttribute args{};
  args.attrib = static_cast<decltype(args.attrib)>(attrib);
  args.val = val;
  args.kernel = callable->id;
  args.dev = static_cast<decltype(args.dev)>(session().devices().ordinal(dev));
  wire::cuKernelSetAttribute::Reply reply{};
  if (const CUresult failed = call(args, reply)) return failed;
  set_attribute(*callable, attrib, val);
  return CUDA_SUCCESS;
}

SLUICE_API cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice dev) {
  if (const CUresult refused = enter_needing(wire::Fn::cuKernelSetCacheConfig, wire::Needs::kInit))
    return refused;
  if (!session().devices().has(dev)) return CUDA_ERROR_INVALID_DEVICE;
  const auto* callable = object_of<Callable>(kernel);
  if (callable == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  wire::cuKernelSetCacheConfig args{};
  args.kernel = callable->id;
  args.config = static_cast<decltype(args.config)>(config);
  args.dev = static_cast<decltype(args.dev)>(session().devices().ordinal(dev));
  wire::cuKernelSetCacheConfig::Reply reply{};
  return call(args, reply);
}
