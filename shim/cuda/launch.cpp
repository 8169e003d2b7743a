// Launches: checked and packed here, posted. This is the hot path: no allocation, no look-up by
// name, one lock.
#include "protocol/launch.h"

#include "protocol/launch_attributes.h"
#include "shim/copies.h"
#include "shim/load.h"

#include <array>
#include <cstring>

using namespace sluice;
using namespace sluice::shim;

namespace {

struct Shape {
  std::array<std::uint32_t, 3> grid;
  std::array<std::uint32_t, 3> block;
  std::uint32_t shared_bytes;
};

std::uint64_t limit(CUdevice device, int id) {
  const int value = session()
                        .devices()
                        .attribute(device, static_cast<CUdevice_attribute>(id))
                        .value_or(INT32_MAX);
  return static_cast<std::uint64_t>(value);
}

/// What the device or the function can never run is refused at the call (CUDA_ERROR_INVALID_VALUE).
CUresult check_shape(Callable& callable, const Shape& shape) {
  const CUdevice device = current_context()->device;
  std::uint64_t threads = 1;
  for (std::size_t axis = 0; axis < 3; ++axis) {
    const int at = static_cast<int>(axis);
    if (shape.grid[axis] == 0 || shape.block[axis] == 0) return CUDA_ERROR_INVALID_VALUE;
    if (shape.grid[axis] > limit(device, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X + at))
      return CUDA_ERROR_INVALID_VALUE;
    if (shape.block[axis] > limit(device, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X + at))
      return CUDA_ERROR_INVALID_VALUE;
    threads *= shape.block[axis];
  }
  if (threads > limit(device, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK))
    return CUDA_ERROR_INVALID_VALUE;
  int value = 0;
  if (callable.attribute(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, &value) && value > 0 &&
      threads > static_cast<std::uint64_t>(value))
    return CUDA_ERROR_INVALID_VALUE;
  if (shape.shared_bytes == 0) return CUDA_SUCCESS;
  if (callable.attribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, &value))
    return shape.shared_bytes > static_cast<std::uint32_t>(std::max(value, 0))
               ? CUDA_ERROR_INVALID_VALUE
               : CUDA_SUCCESS;
  return shape.shared_bytes > limit(device, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK)
             ? CUDA_ERROR_INVALID_VALUE
             : CUDA_SUCCESS;
}

/// The parameters in the layout of the kernel; on the stack unless there are very many.
class Params {
 public:
  CUresult pack(const Callable& callable, void** kernel_params, void** extra) {
    if (kernel_params != nullptr && extra != nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (callable.layout.empty()) return CUDA_SUCCESS;
    if (extra != nullptr) return take_buffer(callable, extra);
    if (kernel_params == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::byte* out = inline_;
    if (callable.params_bytes > sizeof inline_) {
      large_.resize(callable.params_bytes);
      out = large_.data();
    } else {
      std::memset(inline_, 0, callable.params_bytes);
    }
    for (std::size_t i = 0; i < callable.layout.size(); ++i) {
      if (kernel_params[i] == nullptr) return CUDA_ERROR_INVALID_VALUE;
      std::memcpy(out + callable.layout[i].offset, kernel_params[i], callable.layout[i].size);
    }
    bytes_ = {out, callable.params_bytes};
    return CUDA_SUCCESS;
  }
  [[nodiscard]] Bytes bytes() const { return bytes_; }

 private:
  CUresult take_buffer(const Callable& callable, void** extra) {
    const void* buffer = nullptr;
    const std::size_t* size = nullptr;
    for (std::size_t i = 0; extra[i] != CU_LAUNCH_PARAM_END; i += 2) {
      if (extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER) {
        buffer = extra[i + 1];
      } else if (extra[i] == CU_LAUNCH_PARAM_BUFFER_SIZE) {
        size = static_cast<const std::size_t*>(extra[i + 1]);
      } else {
        return CUDA_ERROR_INVALID_VALUE;
      }
    }
    if (buffer == nullptr || size == nullptr || *size < callable.params_bytes)
      return CUDA_ERROR_INVALID_VALUE;
    bytes_ = {static_cast<const std::byte*>(buffer), callable.params_bytes};  // copied by post()
    return CUDA_SUCCESS;
  }

  std::byte inline_[4096];
  std::vector<std::byte> large_;
  Bytes bytes_;
};

struct Request {
  CUfunction function = nullptr;
  Shape shape{};
  CUstream stream = nullptr;
  void** params = nullptr;
  void** extra = nullptr;
  bool is_cooperative = false;
  std::span<const CUlaunchAttribute> attributes;
};

bool needs_residency(const Request& request) {
  return request.is_cooperative ||
         std::any_of(request.attributes.begin(), request.attributes.end(), [](const auto& a) {
           return a.id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE ||
                  a.id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
         });
}

CUresult launch(const Request& request) {
  Callable* callable = callable_of(request.function);
  if (callable == nullptr ||
      (callable->context != nullptr && callable->context != current_context()))
    return CUDA_ERROR_INVALID_HANDLE;
  if (const CUresult bad = check_shape(*callable, request.shape)) return bad;
  Params params;
  if (const CUresult bad = params.pack(*callable, request.params, request.extra)) return bad;
  if (const CUresult failed = session().shadows().look_through(params.bytes())) return failed;
  wire::launch args{};
  if (const CUresult bad = to_wire(request.stream, &args.stream)) return bad;
  args.callee = callable->id;
  std::memcpy(args.grid, request.shape.grid.data(), sizeof args.grid);
  std::memcpy(args.block, request.shape.block.data(), sizeof args.block);
  args.shared_bytes = request.shape.shared_bytes;
  args.is_kernel = callable->is_kernel ? 1 : 0;
  args.is_cooperative = request.is_cooperative ? 1 : 0;
  args.params_bytes = params.bytes().size();
  args.attributes_bytes = request.attributes.size_bytes();
  const std::initializer_list<Bytes> parts = {params.bytes(), std::as_bytes(request.attributes)};
  // Whether such a grid is resident as a whole is the device's to say, at the call.
  if (!needs_residency(request)) return post(args, parts);
  wire::launch::Reply reply{};
  return call(args, reply, parts);
}

enum class Passing { kPass, kSkip, kUnsupported, kUnknown };

Passing passing_of(unsigned id) {
  if (id == CU_LAUNCH_ATTRIBUTE_IGNORE) return Passing::kSkip;
  if (wire::is_portable_launch_attribute(id)) return Passing::kPass;
  switch (id) {
    // They carry handles of events and graph nodes.
    case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT:
    case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT:
    case CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE:
      return Passing::kUnsupported;
    default:
      return Passing::kUnknown;
  }
}

constexpr unsigned kAttributesMax = 64;

}  // namespace

SLUICE_API cuLaunchKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
                          unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY,
                          unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream,
                          void** kernelParams, void** extra) {
  if (const CUresult refused = enter(wire::Fn::cuLaunchKernel)) return refused;
  return launch(
      {.function = f,
       .shape = {{gridDimX, gridDimY, gridDimZ}, {blockDimX, blockDimY, blockDimZ}, sharedMemBytes},
       .stream = hStream,
       .params = kernelParams,
       .extra = extra,
       .attributes = {}});
}

SLUICE_API cuLaunchCooperativeKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
                                     unsigned int gridDimZ, unsigned int blockDimX,
                                     unsigned int blockDimY, unsigned int blockDimZ,
                                     unsigned int sharedMemBytes, CUstream hStream,
                                     void** kernelParams) {
  if (const CUresult refused = enter(wire::Fn::cuLaunchCooperativeKernel)) return refused;
  return launch(
      {.function = f,
       .shape = {{gridDimX, gridDimY, gridDimZ}, {blockDimX, blockDimY, blockDimZ}, sharedMemBytes},
       .stream = hStream,
       .params = kernelParams,
       .is_cooperative = true,
       .attributes = {}});
}

SLUICE_API cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction f, void** kernelParams,
                            void** extra) {
  if (const CUresult refused = enter(wire::Fn::cuLaunchKernelEx)) return refused;
  if (config == nullptr || config->numAttrs > kAttributesMax ||
      (config->numAttrs > 0 && config->attrs == nullptr))
    return CUDA_ERROR_INVALID_VALUE;
  std::vector<CUlaunchAttribute> attributes;
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    // Read as a number: an application may pass ids that this header does not have.
    unsigned id = 0;
    std::memcpy(&id, &config->attrs[i].id, sizeof id);
    switch (passing_of(id)) {
      case Passing::kPass:
        attributes.push_back(config->attrs[i]);
        break;
      case Passing::kSkip:
        break;
      case Passing::kUnsupported:
        return unsupported(wire::Fn::cuLaunchKernelEx);
      case Passing::kUnknown:
        return CUDA_ERROR_INVALID_VALUE;
    }
  }
  return launch({.function = f,
                 .shape = {{config->gridDimX, config->gridDimY, config->gridDimZ},
                           {config->blockDimX, config->blockDimY, config->blockDimZ},
                           config->sharedMemBytes},
                 .stream = config->hStream,
                 .params = kernelParams,
                 .extra = extra,
                 .attributes = attributes});
}

SLUICE_API cuLaunchHostFunc(CUstream hStream, CUhostFn fn, void* userData) {
  if (const CUresult refused = enter(wire::Fn::cuLaunchHostFunc)) return refused;
  if (fn == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Stream* stream = nullptr;
  if (const CUresult bad = use_stream(hStream, &stream)) return bad;
  if (stream->is_capturing.load()) return capture_function(fn, userData, *stream);
  return session().host_functions().launch({.run = fn, .stream = hStream, .data = userData},
                                           *stream, current_context_id());
}
