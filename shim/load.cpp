#include "shim/load.h"

#include "protocol/context.h"
#include "protocol/library.h"
#include "protocol/module.h"

#include <algorithm>
#include <cstring>

namespace sluice::shim {
namespace {

constexpr std::size_t kLogBytesMax = 64 * 1024;
constexpr std::size_t kParamsBytesMax = 64 * 1024;

/// Options without an input value of their own.
bool is_pointer_option(CUjit_option option) {
  return option == CU_JIT_GLOBAL_SYMBOL_NAMES || option == CU_JIT_GLOBAL_SYMBOL_ADDRESSES ||
         option == CU_JIT_REFERENCED_KERNEL_NAMES || option == CU_JIT_REFERENCED_VARIABLE_NAMES;
}

}  // namespace

CUresult load_with_spare(const std::function<CUresult()>& load) {
  const CUresult result = load();
  if (result != CUDA_ERROR_OUT_OF_MEMORY) return result;
  session().memory().give_back_spare();
  // Frees and unloads are posted: the worker has the memory once what came before is done.
  if (current_context() != nullptr) {
    const wire::cuCtxSynchronize args{};
    wire::cuCtxSynchronize::Reply reply{};
    if (const CUresult failed = call(args, reply)) return failed;
  }
  return load();
}

CUresult JitOptions::read(unsigned count, const CUjit_option* options, void** values) {
  if (count > 0 && (options == nullptr || values == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < count; ++i) {
    const auto value = reinterpret_cast<std::uint64_t>(values[i]);
    switch (options[i]) {
      case CU_JIT_INFO_LOG_BUFFER:
        info_.buffer = static_cast<char*>(values[i]);
        break;
      case CU_JIT_ERROR_LOG_BUFFER:
        error_.buffer = static_cast<char*>(values[i]);
        break;
      case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
        info_.buffer_bytes = static_cast<std::uint32_t>(value);
        info_.size_value = &values[i];
        break;
      case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES:
        error_.buffer_bytes = static_cast<std::uint32_t>(value);
        error_.size_value = &values[i];
        break;
      case CU_JIT_WALL_TIME:
        wall_time_ = &values[i];
        break;
      default:
        if (is_pointer_option(options[i])) return CUDA_ERROR_NOT_SUPPORTED;
        entries_.push_back({static_cast<std::uint32_t>(options[i]), 0, value});
    }
  }
  for (Log* log : {&info_, &error_})
    if (log->buffer != nullptr) log->text.resize(std::min(log->buffer_bytes, kLogBytesMax));
  return CUDA_SUCCESS;
}

void JitOptions::write_back() {
  write_back(info_);
  write_back(error_);
  if (wall_time_ != nullptr) {
    const float ms =
        std::chrono::duration<float, std::milli>(std::chrono::steady_clock::now() - start_).count();
    std::memcpy(wall_time_, &ms, sizeof ms);
  }
}

void JitOptions::write_back(Log& log) {
  if (log.buffer == nullptr || log.buffer_bytes == 0) return;
  std::size_t n = std::min({log.sent_bytes, log.text.size(), log.buffer_bytes - 1});
  if (n > 0) std::memcpy(log.buffer, log.text.data(), n);
  while (n > 0 && log.buffer[n - 1] == '\0') --n;
  log.buffer[n] = '\0';
  if (log.size_value != nullptr) *log.size_value = reinterpret_cast<void*>(n > 0 ? n + 1 : 0);
}

CUresult send_image(std::span<const std::byte> image, std::uint64_t* upload) {
  *upload = reserve_id();
  for (std::size_t offset = 0; offset < image.size();) {
    const std::size_t bytes = std::min(image.size() - offset, wire::kPayloadBytesMax);
    wire::image_chunk args{};
    args.upload = *upload;
    args.offset = offset;
    args.total_bytes = image.size();
    args.data_bytes = bytes;
    if (const CUresult failed = post(args, {image.subspan(offset, bytes)})) return failed;
    offset += bytes;
  }
  return CUDA_SUCCESS;
}

CUresult image_error(const Error& error) {
  return error.code == ErrorCode::kNotFound ? CUDA_ERROR_FILE_NOT_FOUND : CUDA_ERROR_INVALID_IMAGE;
}

bool CallableReply::fill(Callable& callable) {
  if (layout_bytes_ > layout_.size() * sizeof(ParamInfo) || layout_bytes_ % sizeof(ParamInfo) != 0)
    return false;
  layout_.resize(layout_bytes_ / sizeof(ParamInfo));
  std::size_t end = 0;
  for (const ParamInfo& param : layout_) {
    if (param.offset > kParamsBytesMax || param.size > kParamsBytesMax) return false;
    end = std::max<std::size_t>(end, std::size_t{param.offset} + param.size);
  }
  attributes_.resize(std::min(attributes_bytes_ / sizeof(int), attributes_.size()));
  callable.layout = std::move(layout_);
  callable.params_bytes = end;
  callable.attributes->values = std::move(attributes_);
  return true;
}

Callable* callable_of(CUfunction f) noexcept {
  if (auto* function = object_of<Callable>(f)) return function;
  return object_of<Callable>(reinterpret_cast<CUkernel>(f));
}

CUresult function_of_kernel(Callable& kernel, CUfunction* function) {
  auto* image = object_of<Image>(kernel.library);
  if (image == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  std::lock_guard lock(image->mutex);
  // One function per kernel and context: its name and the context's number make the key.
  CUfunction& known = image->functions[{current_context()->serial, kernel.id}];
  if (known == nullptr || object_of<Callable>(known) == nullptr) {
    wire::kernel_get_function args{};
    args.kernel = kernel.id;
    args.function = reserve_id();
    wire::kernel_get_function::Reply reply{};
    if (const CUresult failed = call(args, reply)) return failed;
    auto made = std::make_unique<Callable>();
    made->id = args.function;
    made->name = kernel.name;
    made->context = current_context();
    made->library = kernel.library;
    made->layout = kernel.layout;
    made->params_bytes = kernel.params_bytes;
    made->attributes = kernel.attributes;
    Entry entry;
    entry.id = args.function;
    entry.object = made.release();
    entry.owner = current_context()->serial;
    known = new_handle<CUfunction>(entry);
  }
  *function = known;
  return CUDA_SUCCESS;
}

CUresult function_id(Callable& callable, std::uint64_t* id) {
  if (!callable.is_kernel) {
    *id = callable.id;
    return CUDA_SUCCESS;
  }
  CUfunction function = nullptr;
  if (const CUresult failed = function_of_kernel(callable, &function)) return failed;
  *id = object_of<Callable>(function)->id;
  return CUDA_SUCCESS;
}

void set_attribute(Callable& callable, int attribute, int value) {
  std::lock_guard lock(callable.attributes->mutex);
  auto& values = callable.attributes->values;
  if (attribute >= 0 && static_cast<std::size_t>(attribute) < values.size())
    values[static_cast<std::size_t>(attribute)] = value;
}

void remember_variable(Image& image, CUdeviceptr address, std::size_t bytes) {
  if (bytes == 0 || session().addresses().device(address)) return;
  session().addresses().add_device({.base = address,
                                    .bytes = bytes,
                                    .context = current_context(),
                                    .is_variable = true,
                                    .buffer_id = 0});
  std::lock_guard lock(image.mutex);
  image.globals.push_back(address);
}

void forget_contents(Image& image) {
  std::lock_guard lock(image.mutex);
  for (const CUdeviceptr address : image.globals) session().addresses().remove_device(address);
  Entry entry;
  for (const auto& [name, handle] : image.callables)
    for (const Kind kind : {Kind::kFunction, Kind::kKernel})
      if (handles().remove(kind, handle, &entry)) drop_object(kind, entry);
  for (const auto& [key, function] : image.functions)
    if (handles().remove(Kind::kFunction, handle_bits(function), &entry))
      drop_object(Kind::kFunction, entry);
  for (const auto& [context, module] : image.modules)
    if (handles().remove(Kind::kModule, handle_bits(module), &entry))
      drop_object(Kind::kModule, entry);
}

}  // namespace sluice::shim
