// Launches, and what is known about functions. A CUkernel is accepted wherever a CUfunction is.
#include "common/log.h"
#include "softgpu/api/strict.h"
#include "softgpu/api/work.h"
#include "softgpu/exec/context.h"

#include <cstring>

using namespace sluice::softgpu;

namespace {

CUresult kernel_of(const void* handle, std::shared_ptr<Kernel>* out) {
  SOFTGPU_CHECK(initialised());
  *out = state().kernels.find(handle);
  if (*out == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  // A library's kernels belong to no context.
  const void* owner = (*out)->module->owner;
  return owner != nullptr ? check_owner(owner) : CUDA_SUCCESS;
}

CUresult to_result(LaunchOutcome outcome) {
  switch (outcome) {
    case LaunchOutcome::kOk:
      return CUDA_SUCCESS;
    case LaunchOutcome::kIllegalAddress:
      return CUDA_ERROR_ILLEGAL_ADDRESS;
    case LaunchOutcome::kMisalignedAddress:
      return CUDA_ERROR_MISALIGNED_ADDRESS;
    case LaunchOutcome::kInvalidPc:
      return CUDA_ERROR_INVALID_PC;
    case LaunchOutcome::kTrap:
      return CUDA_ERROR_LAUNCH_FAILED;
    case LaunchOutcome::kAssert:
      return CUDA_ERROR_ASSERT;
    case LaunchOutcome::kCancelled:
    case LaunchOutcome::kFailed:
      return CUDA_ERROR_LAUNCH_FAILED;
  }
  return CUDA_ERROR_UNKNOWN;
}

/// From kernelParams or from the packed buffer of `extra`; never both.
CUresult pack_params(const KernelInfo& info, void** params, void** extra,
                     std::vector<std::byte>* out) {
  if (params != nullptr && extra != nullptr) return CUDA_ERROR_INVALID_VALUE;
  out->assign(std::max<std::size_t>(info.param_bytes, 1), std::byte{0});
  if (extra != nullptr) {
    const void* buffer = nullptr;
    std::size_t bytes = 0;
    for (std::size_t i = 0; extra[i] != CU_LAUNCH_PARAM_END; i += 2) {
      if (extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER)
        buffer = extra[i + 1];
      else if (extra[i] == CU_LAUNCH_PARAM_BUFFER_SIZE)
        bytes = *static_cast<const std::size_t*>(extra[i + 1]);
      else
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (buffer == nullptr) return bytes > 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    std::memcpy(out->data(), buffer, std::min<std::size_t>(bytes, info.param_bytes));
    return CUDA_SUCCESS;
  }
  if (info.params.empty()) return CUDA_SUCCESS;
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (std::size_t i = 0; i < info.params.size(); ++i)
    std::memcpy(out->data() + info.params[i].offset_bytes, params[i], info.params[i].size_bytes);
  return CUDA_SUCCESS;
}

CUresult check_shape(const Kernel& kernel, const Dim3& grid, const Dim3& block, unsigned shared) {
  const KernelInfo& info = kernel.info();
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || block.x == 0 || block.y == 0 || block.z == 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (grid.x > 2147483647u || grid.y > 65535 || grid.z > 65535 || block.x > 1024 ||
      block.y > 1024 || block.z > 64)
    return CUDA_ERROR_INVALID_VALUE;
  const std::uint64_t threads = std::uint64_t{block.x} * block.y * block.z;
  if (threads > 1024 || threads > info.max_threads_per_block) return CUDA_ERROR_INVALID_VALUE;
  if (shared > static_cast<unsigned>(kernel.max_dynamic_shared_bytes) ||
      info.static_shared_bytes + shared > kSharedBytesMax)
    return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}

/// A cooperative grid is resident as a whole.
bool fits_at_once(const Kernel& kernel, const LaunchConfig& config) {
  const Dim3& b = config.block;
  const Dim3& g = config.grid;
  return std::uint64_t{g.x} * g.y * g.z <=
         resident_blocks(kernel, b.x * b.y * b.z, config.dynamic_shared_bytes);
}

}  // namespace

namespace sluice::softgpu {

CUresult make_kernel_work(const void* function, const LaunchConfig& shape, void** params,
                          void** extra, KernelWork* out) {
  SOFTGPU_CHECK(initialised());
  out->kernel = state().kernels.find(function);
  if (out->kernel == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  out->handle = static_cast<CUfunction>(const_cast<void*>(function));
  SOFTGPU_CHECK(check_shape(*out->kernel, shape.grid, shape.block, shape.dynamic_shared_bytes));
  out->config = shape;
  if (shape.is_cooperative && !fits_at_once(*out->kernel, shape))
    return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
  SOFTGPU_CHECK(pack_params(out->kernel->info(), params, extra, &out->config.params));
  const auto prepared = out->kernel->module->program->prepare(out->kernel->index);
  if (prepared) return CUDA_SUCCESS;
  SLUICE_LOG_WARN("softgpu", "{}", prepared.error().message);
  return prepared.error().code == ErrorCode::kUnsupported ? CUDA_ERROR_NOT_SUPPORTED
                                                          : CUDA_ERROR_LAUNCH_FAILED;
}

CUresult run(const KernelWork& work, const Context& context) {
  LaunchConfig config = work.config;
  config.services = context.services;
  config.device = static_cast<unsigned>(context.device->ordinal);
  config.is_cancelled = [flag = context.is_cancelled] {
    return flag->load(std::memory_order_relaxed);
  };
  const LaunchResult result = work.kernel->module->program->run(work.kernel->index, config);
  // Whoever carries the text elsewhere gets it before the launch counts as finished.
  if (has_printf_sink()) config.services->flush();
  if (result.outcome == LaunchOutcome::kAssert)
    report_assertion(result.detail + "\n");
  else if (result.outcome != LaunchOutcome::kOk)
    SLUICE_LOG_WARN("softgpu", "{}", result.detail);
  return to_result(result.outcome);
}

}  // namespace sluice::softgpu

namespace {

/// Strict mode: the first launch of a context and of a module takes memory that was not there to
/// see before.
CUresult charge_first_launch(Context& context, LoadedModule& module) {
  if (!is_strict()) return CUDA_SUCCESS;
  const std::lock_guard lock(context.mutex);
  if (!context.has_launched) {
    if (!context.device->arena->account().charge(kFirstLaunchBytes))
      return CUDA_ERROR_OUT_OF_MEMORY;
    context.has_launched = true;
    context.overhead_bytes += kFirstLaunchBytes;
  }
  if (module.code_bytes != 0) return CUDA_SUCCESS;
  if (!module.device->arena->account().charge(kModuleLoadBytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  if (module.code_bytes.exchange(kModuleLoadBytes) != 0)  // a library's, from another context
    module.device->arena->account().refund(kModuleLoadBytes);
  return CUDA_SUCCESS;
}

/// Strict mode: blocks while the stream's queue is full. The place is free again when the result
/// dies.
std::shared_ptr<void> take_queue_place(const Stream& stream) {
  const auto queue = stream.queue;
  if (queue == nullptr) return nullptr;
  std::unique_lock lock(queue->mutex);
  queue->changed.wait(lock, [&] { return queue->length < kLaunchQueueMax; });
  ++queue->length;
  return {queue.get(), [queue](void*) {
            const std::lock_guard inner(queue->mutex);
            --queue->length;
            queue->changed.notify_all();
          }};
}

CUresult launch(CUfunction function, const LaunchConfig& shape, CUstream handle, void** params,
                void** extra) {
  SOFTGPU_CHECK(initialised());
  if (state().kernels.find(function) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  std::shared_ptr<Stream> stream;
  SOFTGPU_CHECK(stream_of(handle, &stream));
  KernelWork work;
  SOFTGPU_CHECK(make_kernel_work(function, shape, params, extra, &work));
  const void* owner = work.kernel->module->owner;
  if (owner != nullptr && owner != stream->context.get()) return CUDA_ERROR_INVALID_HANDLE;
  SOFTGPU_CHECK(charge_first_launch(*stream->context, *work.kernel->module));
  if (stream->queue == nullptr || is_capturing(stream)) return submit_work(stream, std::move(work));
  return submit(stream, [place = take_queue_place(*stream), work = std::move(work),
                         context = stream->context.get()] { return run(work, *context); });
}

CUresult check_attributes(const CUlaunchConfig& config, bool* is_cooperative) {
  if (config.numAttrs > 0 && config.attrs == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < config.numAttrs; ++i) {
    const CUlaunchAttribute& a = config.attrs[i];
    switch (static_cast<int>(a.id)) {
      case CU_LAUNCH_ATTRIBUTE_IGNORE:
      case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
      case CU_LAUNCH_ATTRIBUTE_PRIORITY:
      case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
      case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
      case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
      case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
        break;
      case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
        *is_cooperative = a.value.cooperative != 0;
        break;
      default:
        return static_cast<int>(a.id) <= CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING
                   ? CUDA_ERROR_NOT_SUPPORTED
                   : CUDA_ERROR_INVALID_VALUE;
    }
  }
  return CUDA_SUCCESS;
}

/// Attribute of a kernel; `is_known` false for numbers that do not exist.
int attribute_of(const Kernel& kernel, CUfunction_attribute attribute, bool* is_known) {
  const KernelInfo& info = kernel.info();
  *is_known = true;
  switch (static_cast<int>(attribute)) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      return static_cast<int>(info.max_threads_per_block);
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
      return static_cast<int>(info.static_shared_bytes);
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
      return static_cast<int>(info.local_bytes);
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
      return 32;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
      return info.target_sm;
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
      return info.target_sm;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      return kernel.max_dynamic_shared_bytes;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      return kernel.shared_carveout;
    default:
      break;
  }
  *is_known = attribute >= 0 && attribute < CU_FUNC_ATTRIBUTE_MAX;
  return 0;
}

CUresult get_attribute(int* out, CUfunction_attribute attribute, const void* handle) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Kernel> kernel;
  SOFTGPU_CHECK(kernel_of(handle, &kernel));
  bool is_known = false;
  const int value = attribute_of(*kernel, attribute, &is_known);
  if (!is_known) return CUDA_ERROR_INVALID_VALUE;
  *out = value;
  return CUDA_SUCCESS;
}

CUresult set_attribute(const void* handle, CUfunction_attribute attribute, int value) {
  std::shared_ptr<Kernel> kernel;
  SOFTGPU_CHECK(kernel_of(handle, &kernel));
  if (attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) {
    if (value < 0 ||
        static_cast<unsigned>(value) + kernel->info().static_shared_bytes > kSharedBytesMax)
      return CUDA_ERROR_INVALID_VALUE;
    kernel->max_dynamic_shared_bytes = value;
    return CUDA_SUCCESS;
  }
  if (attribute != CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT)
    return CUDA_ERROR_INVALID_VALUE;
  if (value < -1 || value > 100) return CUDA_ERROR_INVALID_VALUE;
  kernel->shared_carveout = value;
  return CUDA_SUCCESS;
}

CUresult param_info(const void* handle, std::size_t index, std::size_t* offset, std::size_t* size) {
  if (offset == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Kernel> kernel;
  SOFTGPU_CHECK(kernel_of(handle, &kernel));
  const auto& params = kernel->info().params;
  if (index >= params.size()) return CUDA_ERROR_INVALID_VALUE;
  *offset = params[index].offset_bytes;
  if (size != nullptr) *size = params[index].size_bytes;
  return CUDA_SUCCESS;
}

CUresult name_of(const char** name, const void* handle) {
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Kernel> kernel;
  SOFTGPU_CHECK(kernel_of(handle, &kernel));
  *name = kernel->info().name.c_str();
  return CUDA_SUCCESS;
}

}  // namespace

SOFTGPU_API cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                           unsigned by, unsigned bz, unsigned shared, CUstream stream,
                           void** params, void** extra) {
  LaunchConfig shape;
  shape.grid = {gx, gy, gz};
  shape.block = {bx, by, bz};
  shape.dynamic_shared_bytes = shared;
  return launch(f, shape, stream, params, extra);
}

SOFTGPU_API cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction f, void** params,
                             void** extra) {
  if (config == nullptr) return CUDA_ERROR_INVALID_VALUE;
  LaunchConfig shape;
  SOFTGPU_CHECK(check_attributes(*config, &shape.is_cooperative));
  shape.grid = {config->gridDimX, config->gridDimY, config->gridDimZ};
  shape.block = {config->blockDimX, config->blockDimY, config->blockDimZ};
  shape.dynamic_shared_bytes = config->sharedMemBytes;
  return launch(f, shape, config->hStream, params, extra);
}

SOFTGPU_API cuLaunchCooperativeKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz,
                                      unsigned bx, unsigned by, unsigned bz, unsigned shared,
                                      CUstream stream, void** params) {
  LaunchConfig shape;
  shape.grid = {gx, gy, gz};
  shape.block = {bx, by, bz};
  shape.dynamic_shared_bytes = shared;
  shape.is_cooperative = true;
  return launch(f, shape, stream, params, nullptr);
}

SOFTGPU_API cuFuncGetAttribute(int* out, CUfunction_attribute a, CUfunction f) {
  return get_attribute(out, a, f);
}
SOFTGPU_API cuFuncSetAttribute(CUfunction f, CUfunction_attribute a, int value) {
  return set_attribute(f, a, value);
}
SOFTGPU_API cuKernelGetAttribute(int* out, CUfunction_attribute a, CUkernel k, CUdevice) {
  return get_attribute(out, a, k);
}
SOFTGPU_API cuKernelSetAttribute(CUfunction_attribute a, int value, CUkernel k, CUdevice) {
  return set_attribute(k, a, value);
}
SOFTGPU_API cuFuncGetParamInfo(CUfunction f, size_t i, size_t* offset, size_t* size) {
  return param_info(f, i, offset, size);
}
SOFTGPU_API cuKernelGetParamInfo(CUkernel k, size_t i, size_t* offset, size_t* size) {
  return param_info(k, i, offset, size);
}
SOFTGPU_API cuFuncGetName(const char** name, CUfunction f) {
  return name_of(name, f);
}
SOFTGPU_API cuKernelGetName(const char** name, CUkernel k) {
  return name_of(name, k);
}
SOFTGPU_API cuFuncSetCacheConfig(CUfunction f, CUfunc_cache) {
  return state().kernels.find(f) != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
SOFTGPU_API cuFuncGetModule(CUmodule* out, CUfunction f) {
  const auto kernel = state().kernels.find(f);
  if (out == nullptr || kernel == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = reinterpret_cast<CUmodule>(kernel->module.get());
  return state().modules.find(*out) != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
