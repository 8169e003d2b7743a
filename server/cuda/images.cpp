#include "server/cuda/images.h"

#include "common/fatbin.h"

#include <algorithm>
#include <climits>
#include <cstring>

namespace sluice::server {
namespace {

constexpr std::uint64_t kImageBytesMax = std::uint64_t{2} << 30;
constexpr std::size_t kUploadsMax = 16;
constexpr std::uint32_t kLogBytesMax = 1 << 20;
constexpr std::size_t kParamsMax = 4096;

struct WireOption {
  std::uint32_t option, pad;
  std::uint64_t value;
};

template <class T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
  const auto* p = reinterpret_cast<const std::byte*>(values.data());
  return {p, p + values.size() * sizeof(T)};
}

/// Options whose value is a number. The others hold addresses, which are the client's.
bool is_plain(std::uint32_t option) {
  switch (option) {
    case CU_JIT_WALL_TIME:
    case CU_JIT_INFO_LOG_BUFFER:
    case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
    case CU_JIT_ERROR_LOG_BUFFER:
    case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES:
    case CU_JIT_GLOBAL_SYMBOL_NAMES:
    case CU_JIT_GLOBAL_SYMBOL_ADDRESSES:
    case CU_JIT_GLOBAL_SYMBOL_COUNT:
    case CU_JIT_REFERENCED_KERNEL_NAMES:
    case CU_JIT_REFERENCED_KERNEL_COUNT:
    case CU_JIT_REFERENCED_VARIABLE_NAMES:
    case CU_JIT_REFERENCED_VARIABLE_COUNT:
      return false;
    default:
      return option < CU_JIT_NUM_OPTIONS;
  }
}

/// ParamInfo: (index, &offset, &size) -> CUresult; Attribute: (&value, number) -> CUresult.
template <class ParamInfo, class Attribute>
KernelLayout describe(Call& call, ParamInfo param_info, Attribute attribute,
                      std::uint64_t* layout_bytes, std::uint64_t* attributes_bytes) {
  KernelLayout layout;
  for (std::size_t i = 0; i < kParamsMax; ++i) {
    std::size_t offset = 0;
    std::size_t size = 0;
    const CUresult result = param_info(i, &offset, &size);
    layout.is_known = result != CUDA_ERROR_NOT_SUPPORTED;
    if (result != CUDA_SUCCESS) break;
    layout.params.push_back({static_cast<std::uint32_t>(offset), static_cast<std::uint32_t>(size)});
    layout.total_bytes = std::max(layout.total_bytes, static_cast<std::uint32_t>(offset + size));
  }
  std::vector<std::int32_t> attributes;
  for (int a = 0; a < CU_FUNC_ATTRIBUTE_MAX; ++a) {
    int value = 0;
    attributes.push_back(
        attribute(&value, static_cast<CUfunction_attribute>(a)) == CUDA_SUCCESS ? value : INT_MIN);
  }
  std::vector<std::byte> layout_part = bytes_of(layout.params);
  std::vector<std::byte> attributes_part = bytes_of(attributes);
  *layout_bytes = layout_part.size();
  *attributes_bytes = attributes_part.size();
  call.reply_blob(std::move(layout_part));
  call.reply_blob(std::move(attributes_part));
  return layout;
}

}  // namespace

bool Image::is_fatbin() const {
  std::uint32_t magic = 0;
  if (bytes.size() < sizeof magic) return false;
  std::memcpy(&magic, bytes.data(), sizeof magic);
  return magic == kFatbinMagic;
}

CUresult take_image(Worker& worker, std::uint64_t upload, Image* out) {
  const auto found = worker.uploads.find(upload);
  if (found == worker.uploads.end()) return CUDA_ERROR_INVALID_VALUE;
  Worker::Upload whole = std::move(found->second);
  worker.uploads.erase(found);
  worker.upload_bytes -= whole.bytes.size();
  if (whole.bytes.size() != whole.total_bytes) return CUDA_ERROR_INVALID_IMAGE;
  out->bytes = std::move(whole.bytes);
  out->bytes.push_back(std::byte{0});
  // The driver believes the lengths of a container; they must not lead it out of the image.
  if (out->is_fatbin() && !fatbin_entries(std::span(out->bytes).first(whole.total_bytes)))
    return CUDA_ERROR_INVALID_IMAGE;
  return CUDA_SUCCESS;
}

JitOptions::JitOptions(Bytes options, std::uint32_t info_bytes_max, std::uint32_t error_bytes_max) {
  for (std::size_t at = 0; at + sizeof(WireOption) <= options.size(); at += sizeof(WireOption)) {
    WireOption option;
    std::memcpy(&option, options.data() + at, sizeof option);
    if (!is_plain(option.option)) continue;
    options_.push_back(static_cast<CUjit_option>(option.option));
    values_.push_back(reinterpret_cast<void*>(option.value));
  }
  const auto add_log = [&](std::vector<char>* log, std::uint32_t bytes, CUjit_option buffer,
                           CUjit_option size) {
    if (bytes == 0) return;
    log->assign(std::min(bytes, kLogBytesMax), '\0');
    options_.push_back(buffer);
    values_.push_back(log->data());
    options_.push_back(size);
    values_.push_back(reinterpret_cast<void*>(log->size()));
  };
  add_log(&info_, info_bytes_max, CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES);
  add_log(&error_, error_bytes_max, CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES);
}

std::vector<std::byte> JitOptions::text_of(const std::vector<char>& log) {
  const auto end = std::find(log.begin(), log.end(), '\0');
  const auto* p = reinterpret_cast<const std::byte*>(log.data());
  return {p, p + (end - log.begin())};
}

void describe_function(Call& call, std::uint64_t id, CUfunction function,
                       std::uint64_t* layout_bytes, std::uint64_t* attributes_bytes) {
  const DriverTable& driver = call.driver();
  call.worker().function_layouts[id] = describe(
      call,
      [&](std::size_t i, std::size_t* offset, std::size_t* size) {
        return driver.cuFuncGetParamInfo != nullptr
                   ? driver.cuFuncGetParamInfo(function, i, offset, size)
                   : CUDA_ERROR_NOT_SUPPORTED;
      },
      [&](int* value, CUfunction_attribute a) {
        return driver.cuFuncGetAttribute != nullptr ? driver.cuFuncGetAttribute(value, a, function)
                                                    : CUDA_ERROR_NOT_SUPPORTED;
      },
      layout_bytes, attributes_bytes);
}

void describe_kernel(Call& call, std::uint64_t id, CUkernel kernel, std::uint64_t* layout_bytes,
                     std::uint64_t* attributes_bytes) {
  const DriverTable& driver = call.driver();
  call.worker().kernel_layouts[id] = describe(
      call,
      [&](std::size_t i, std::size_t* offset, std::size_t* size) {
        return driver.cuKernelGetParamInfo != nullptr
                   ? driver.cuKernelGetParamInfo(kernel, i, offset, size)
                   : CUDA_ERROR_NOT_SUPPORTED;
      },
      [&](int* value, CUfunction_attribute a) {
        return driver.cuKernelGetAttribute != nullptr
                   ? driver.cuKernelGetAttribute(value, a, kernel, 0)
                   : CUDA_ERROR_NOT_SUPPORTED;
      },
      layout_bytes, attributes_bytes);
}

CUresult handle(Call& call, const wire::image_chunk& args, wire::image_chunk::Reply&) {
  Worker& worker = call.worker();
  const Bytes data = call.blob(0);
  if (args.total_bytes > kImageBytesMax || args.offset > args.total_bytes ||
      data.size() > args.total_bytes - args.offset)
    return CUDA_ERROR_INVALID_VALUE;
  auto found = worker.uploads.find(args.upload);
  if (found == worker.uploads.end()) {
    if (args.offset != 0 || worker.uploads.size() >= kUploadsMax) return CUDA_ERROR_INVALID_VALUE;
    found = worker.uploads.emplace(args.upload, Worker::Upload{args.total_bytes, {}}).first;
  }
  Worker::Upload& upload = found->second;
  // Pieces come in order, so that a complete count means a complete image. Memory is taken for what
  // has arrived, not for what was announced.
  if (upload.total_bytes != args.total_bytes || upload.bytes.size() != args.offset)
    return CUDA_ERROR_INVALID_VALUE;
  if (worker.upload_bytes + data.size() > kImageBytesMax) return CUDA_ERROR_OUT_OF_MEMORY;
  worker.upload_bytes += data.size();
  upload.bytes.insert(upload.bytes.end(), data.begin(), data.end());
  return CUDA_SUCCESS;
}

}  // namespace sluice::server
