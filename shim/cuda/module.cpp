// Modules and their functions. What a function needs for later answers comes with it.
#include "protocol/module.h"

#include "shim/load.h"

#include <cstring>

using namespace sluice;
using namespace sluice::shim;

namespace {

CUresult ask_to_load(std::span<const std::byte> image, JitOptions& options,
                     wire::module_load& args) {
  if (const CUresult failed = send_image(image, &args.upload)) return failed;
  args.module = reserve_id();
  args.options_bytes = options.wire_bytes().size();
  args.info_log_bytes_max = options.info_bytes_max();
  args.error_log_bytes_max = options.error_bytes_max();
  wire::module_load::Reply reply{};
  return call(args, reply, {options.wire_bytes()}, {options.info_out(), options.error_out()});
}

CUresult load_image(CUmodule* out, std::span<const std::byte> image, JitOptions& options) {
  wire::module_load args{};
  const CUresult result = load_with_spare([&] { return ask_to_load(image, options, args); });
  options.write_back();
  if (result != CUDA_SUCCESS) return result;
  Entry entry;
  entry.id = args.module;
  entry.object = new Image;
  static_cast<Image*>(entry.object)->id = args.module;
  entry.owner = current_context()->serial;
  *out = new_handle<CUmodule>(entry);
  return *out != nullptr ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult load(wire::Fn fn, CUmodule* out, const void* image, JitOptions& options) {
  if (const CUresult refused = enter(fn)) return refused;
  if (out == nullptr || image == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto bytes = image_bytes(image);
  return bytes ? load_image(out, *bytes, options) : image_error(bytes.error());
}

CUresult fetch_function(CUmodule module, const Image& image, const char* name, CUfunction* out) {
  wire::module_get_function args{};
  const Bytes name_bytes = string_bytes(name);
  args.module = image.id;
  args.function = reserve_id();
  args.name_bytes = name_bytes.size();
  wire::module_get_function::Reply reply{};
  CallableReply details;
  if (const CUresult failed =
          call(args, reply, {name_bytes}, {details.layout_out(), details.attributes_out()}))
    return failed;
  auto made = std::make_unique<Callable>();
  made->id = args.function;
  made->name = name;
  made->context = current_context();
  made->module = module;
  if (!details.fill(*made)) return CUDA_ERROR_UNKNOWN;
  Entry entry;
  entry.id = args.function;
  entry.object = made.release();
  entry.owner = current_context()->serial;
  *out = new_handle<CUfunction>(entry);
  return CUDA_SUCCESS;
}

}  // namespace

SLUICE_API cuModuleLoadData(CUmodule* module, const void* image) {
  JitOptions none;
  return load(wire::Fn::cuModuleLoadData, module, image, none);
}

SLUICE_API cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned int numOptions,
                              CUjit_option* options, void** optionValues) {
  JitOptions jit;
  if (const CUresult bad = jit.read(numOptions, options, optionValues)) return bad;
  return load(wire::Fn::cuModuleLoadDataEx, module, image, jit);
}

SLUICE_API cuModuleLoadFatBinary(CUmodule* module, const void* fatCubin) {
  JitOptions none;
  return load(wire::Fn::cuModuleLoadFatBinary, module, fatCubin, none);
}

SLUICE_API cuModuleLoad(CUmodule* module, const char* fname) {
  if (const CUresult refused = enter(wire::Fn::cuModuleLoad)) return refused;
  if (module == nullptr || fname == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto data = read_image_file(fname);
  if (!data) return image_error(data.error());
  const auto bytes = image_bytes(data->data());
  if (!bytes || bytes->size() > data->size()) return CUDA_ERROR_INVALID_IMAGE;
  JitOptions none;
  return load_image(module, *bytes, none);
}

SLUICE_API cuModuleUnload(CUmodule hmod) {
  if (const CUresult refused = enter(wire::Fn::cuModuleUnload)) return refused;
  Entry entry;
  if (!handles().remove(Kind::kModule, handle_bits(hmod), &entry)) return CUDA_ERROR_INVALID_HANDLE;
  forget_contents(*static_cast<Image*>(entry.object));
  drop_object(Kind::kModule, entry);
  wire::cuModuleUnload args{};
  args.hmod = entry.id;
  return post(args);
}

SLUICE_API cuModuleGetLoadingMode(CUmoduleLoadingMode* mode) {
  if (const CUresult refused = enter_needing(wire::Fn::cuModuleGetLoadingMode, wire::Needs::kInit))
    return refused;
  if (mode == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *mode = CU_MODULE_EAGER_LOADING;
  return CUDA_SUCCESS;
}

SLUICE_API cuModuleGetFunction(CUfunction* hfunc, CUmodule hmod, const char* name) {
  if (const CUresult refused = enter(wire::Fn::cuModuleGetFunction)) return refused;
  if (hfunc == nullptr || name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  auto* image = object_of<Image>(hmod);
  if (image == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  std::lock_guard lock(image->mutex);
  const auto known = image->callables.find(name);
  if (known != image->callables.end()) {
    *hfunc = reinterpret_cast<CUfunction>(known->second);
    return CUDA_SUCCESS;
  }
  if (const CUresult failed = fetch_function(hmod, *image, name, hfunc)) return failed;
  image->callables.emplace(name, handle_bits(*hfunc));
  return CUDA_SUCCESS;
}

SLUICE_API cuModuleGetGlobal_v2(CUdeviceptr* dptr, size_t* bytes, CUmodule hmod, const char* name) {
  if (const CUresult refused = enter(wire::Fn::cuModuleGetGlobal_v2)) return refused;
  if (name == nullptr || (dptr == nullptr && bytes == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  auto* image = object_of<Image>(hmod);
  if (image == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  wire::cuModuleGetGlobal_v2 args{};
  const Bytes name_bytes = string_bytes(name);
  args.hmod = image->id;
  args.name_bytes = name_bytes.size();
  wire::cuModuleGetGlobal_v2::Reply reply{};
  if (const CUresult failed = call(args, reply, {name_bytes})) return failed;
  remember_variable(*image, reply.dptr, reply.bytes);
  if (dptr != nullptr) *dptr = reply.dptr;
  if (bytes != nullptr) *bytes = reply.bytes;
  return CUDA_SUCCESS;
}

SLUICE_API cuFuncGetAttribute(int* pi, CUfunction_attribute attrib, CUfunction hfunc) {
  if (const CUresult refused = enter_needing(wire::Fn::cuFuncGetAttribute, wire::Needs::kContext))
    return refused;
  if (pi == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Callable* callable = callable_of(hfunc);
  if (callable == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return callable->attribute(attrib, pi) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SLUICE_API cuFuncSetAttribute(CUfunction hfunc, CUfunction_attribute attrib, int value) {
  if (const CUresult refused = enter(wire::Fn::cuFuncSetAttribute)) return refused;
  Callable* callable = callable_of(hfunc);
  if (callable == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  wire::cuFuncSetAttribute args{};
  if (const CUresult failed = function_id(*callable, &args.hfunc)) return failed;
  args.attrib = static_cast<decltype(args.attrib)>(attrib);
  args.value = value;
  wire::cuFuncSetAttribute::Reply reply{};
  if (const CUresult failed = call(args, reply)) return failed;
  set_attribute(*callable, attrib, value);
  return CUDA_SUCCESS;
}

SLUICE_API cuFuncGetParamInfo(CUfunction func, size_t paramIndex, size_t* paramOffset,
                              size_t* paramSize) {
  if (const CUresult refused = enter_needing(wire::Fn::cuFuncGetParamInfo, wire::Needs::kContext))
    return refused;
  const Callable* callable = callable_of(func);
  if (callable == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (paramOffset == nullptr || paramIndex >= callable->layout.size())
    return CUDA_ERROR_INVALID_VALUE;
  *paramOffset = callable->layout[paramIndex].offset;
  if (paramSize != nullptr) *paramSize = callable->layout[paramIndex].size;
  return CUDA_SUCCESS;
}

SLUICE_API cuFuncGetName(const char** name, CUfunction hfunc) {
  if (const CUresult refused = enter_needing(wire::Fn::cuFuncGetName, wire::Needs::kInit))
    return refused;
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Callable* callable = callable_of(hfunc);
  if (callable == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *name = callable->name.c_str();
  return CUDA_SUCCESS;
}

SLUICE_API cuFuncGetModule(CUmodule* hmod, CUfunction hfunc) {
  if (const CUresult refused = enter_needing(wire::Fn::cuFuncGetModule, wire::Needs::kContext))
    return refused;
  if (hmod == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Callable* callable = callable_of(hfunc);
  if (callable == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (callable->module != nullptr) {
    *hmod = callable->module;
    return CUDA_SUCCESS;
  }
  return cuLibraryGetModule(hmod, callable->library);
}
