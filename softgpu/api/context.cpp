// Contexts: primary and created ones, the stack of each thread, limits.
#include "softgpu/api/state.h"

#include <algorithm>

using namespace sluice::softgpu;

namespace {

CUresult find_device(CUdevice ordinal, Device** out) {
  if (const CUresult bad = initialised()) return bad;
  *out = device_of(ordinal);
  return *out != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

/// Of this thread, dead or sick contexts included.
std::shared_ptr<Context> top() {
  auto& stack = context_stack();
  return stack.empty() || stack.back() == nullptr ? nullptr : state().contexts.find(stack.back());
}

CUresult create(CUcontext* out, unsigned flags, CUdevice ordinal) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Device* device = nullptr;
  SOFTGPU_CHECK(find_device(ordinal, &device));
  auto context = make_context(device, flags, false);
  if (context == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  *out = state().contexts.add(std::move(context));
  context_stack().push_back(*out);
  return CUDA_SUCCESS;
}

CUresult drop_primary(Device* device) {
  auto context = std::move(device->primary);
  device->primary = nullptr;
  device->primary_count = 0;
  if (context == nullptr) return CUDA_SUCCESS;
  destroy_context(context);
  state().contexts.remove(context.get());
  return CUDA_SUCCESS;
}

}  // namespace

SOFTGPU_API cuDevicePrimaryCtxRetain(CUcontext* out, CUdevice ordinal) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Device* device = nullptr;
  SOFTGPU_CHECK(find_device(ordinal, &device));
  const std::lock_guard lock(device->mutex);
  if (device->primary == nullptr) {
    device->primary = make_context(device, device->primary_flags, true);
    if (device->primary == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
    state().contexts.add(device->primary);
  }
  ++device->primary_count;
  *out = reinterpret_cast<CUcontext>(device->primary.get());
  return CUDA_SUCCESS;
}

SOFTGPU_API cuDevicePrimaryCtxRelease_v2(CUdevice ordinal) {
  Device* device = nullptr;
  SOFTGPU_CHECK(find_device(ordinal, &device));
  const std::lock_guard lock(device->mutex);
  if (device->primary_count == 0) return CUDA_ERROR_INVALID_CONTEXT;
  return --device->primary_count == 0 ? drop_primary(device) : CUDA_SUCCESS;
}

SOFTGPU_API cuDevicePrimaryCtxReset_v2(CUdevice ordinal) {
  Device* device = nullptr;
  SOFTGPU_CHECK(find_device(ordinal, &device));
  const std::lock_guard lock(device->mutex);
  return drop_primary(device);
}

SOFTGPU_API cuDevicePrimaryCtxGetState(CUdevice ordinal, unsigned int* flags, int* active) {
  if (flags == nullptr || active == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Device* device = nullptr;
  SOFTGPU_CHECK(find_device(ordinal, &device));
  const std::lock_guard lock(device->mutex);
  *flags = device->primary_flags;
  *active = device->primary != nullptr ? 1 : 0;
  return CUDA_SUCCESS;
}

SOFTGPU_API cuDevicePrimaryCtxSetFlags_v2(CUdevice ordinal, unsigned int flags) {
  Device* device = nullptr;
  SOFTGPU_CHECK(find_device(ordinal, &device));
  if ((flags & ~static_cast<unsigned>(CU_CTX_FLAGS_MASK)) != 0) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard lock(device->mutex);
  device->primary_flags = flags;
  return CUDA_SUCCESS;
}

SOFTGPU_API cuCtxCreate_v2(CUcontext* out, unsigned int flags, CUdevice device) {
  return create(out, flags, device);
}
SOFTGPU_API cuCtxCreate_v3(CUcontext* out, CUexecAffinityParam*, int count, unsigned int flags,
                           CUdevice device) {
  return count != 0 ? CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY : create(out, flags, device);
}
SOFTGPU_API cuCtxCreate_v4(CUcontext* out, CUctxCreateParams* params, unsigned int flags,
                           CUdevice device) {
  if (params != nullptr && (params->numExecAffinityParams != 0 || params->cigParams != nullptr))
    return CUDA_ERROR_NOT_SUPPORTED;
  return create(out, flags, device);
}

SOFTGPU_API cuCtxDestroy_v2(CUcontext handle) {
  SOFTGPU_CHECK(initialised());
  const auto context = state().contexts.find(handle);
  if (context == nullptr || context->is_primary) return CUDA_ERROR_INVALID_CONTEXT;
  destroy_context(context);
  state().contexts.remove(handle);
  auto& stack = context_stack();
  if (!stack.empty() && stack.back() == handle) stack.pop_back();
  return CUDA_SUCCESS;
}

SOFTGPU_API cuCtxGetCurrent(CUcontext* out) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  SOFTGPU_CHECK(initialised());
  *out = context_stack().empty() ? nullptr : context_stack().back();
  return CUDA_SUCCESS;
}

SOFTGPU_API cuCtxSetCurrent(CUcontext handle) {
  SOFTGPU_CHECK(initialised());
  if (handle != nullptr && state().contexts.find(handle) == nullptr)
    return CUDA_ERROR_INVALID_CONTEXT;
  auto& stack = context_stack();
  if (!stack.empty()) stack.pop_back();
  if (handle != nullptr) stack.push_back(handle);
  return CUDA_SUCCESS;
}

SOFTGPU_API cuCtxPushCurrent_v2(CUcontext handle) {
  SOFTGPU_CHECK(initialised());
  if (state().contexts.find(handle) == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  context_stack().push_back(handle);
  return CUDA_SUCCESS;
}

SOFTGPU_API cuCtxPopCurrent_v2(CUcontext* out) {
  SOFTGPU_CHECK(initialised());
  auto& stack = context_stack();
  if (stack.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  if (out != nullptr) *out = stack.back();
  stack.pop_back();
  return CUDA_SUCCESS;
}

SOFTGPU_API cuCtxGetDevice(CUdevice* out) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  SOFTGPU_CHECK(initialised());
  const auto context = top();
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  *out = ordinal_of(context->device);
  return CUDA_SUCCESS;
}

SOFTGPU_API cuCtxGetDevice_v2(CUdevice* out, CUcontext handle) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  SOFTGPU_CHECK(initialised());
  const auto context = handle != nullptr ? state().contexts.find(handle) : top();
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  *out = ordinal_of(context->device);
  return CUDA_SUCCESS;
}

SOFTGPU_API cuCtxGetFlags(unsigned int* flags) {
  if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Context> context;
  SOFTGPU_CHECK(current(&context));
  *flags = context->flags;
  return CUDA_SUCCESS;
}

SOFTGPU_API cuCtxGetId(CUcontext handle, unsigned long long* id) {
  if (id == nullptr) return CUDA_ERROR_INVALID_VALUE;
  SOFTGPU_CHECK(initialised());
  const auto context = handle != nullptr ? state().contexts.find(handle) : top();
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  *id = context->id;
  return CUDA_SUCCESS;
}

SOFTGPU_API cuCtxGetApiVersion(CUcontext, unsigned int* version) {
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  SOFTGPU_CHECK(initialised());
  *version = 3020;
  return CUDA_SUCCESS;
}

SOFTGPU_API cuCtxSynchronize(void) {
  std::shared_ptr<Context> context;
  SOFTGPU_CHECK(current(&context));
  SOFTGPU_CHECK(refuse_unsafe_call());
  return wait_all(*context, pending(*context));
}

SOFTGPU_API cuCtxSynchronize_v2(CUcontext handle) {
  SOFTGPU_CHECK(initialised());
  if (handle == nullptr) return cuCtxSynchronize();
  const auto context = state().contexts.find(handle);
  return context != nullptr ? wait_all(*context, pending(*context)) : CUDA_ERROR_INVALID_CONTEXT;
}

SOFTGPU_API cuCtxSetLimit(CUlimit limit, size_t value) {
  std::shared_ptr<Context> context;
  SOFTGPU_CHECK(current(&context));
  if (limit < 0 || limit >= CU_LIMIT_MAX) return CUDA_ERROR_UNSUPPORTED_LIMIT;
  if (limit == CU_LIMIT_PRINTF_FIFO_SIZE) context->services->set_fifo_bytes(value);
  if (limit == CU_LIMIT_MALLOC_HEAP_SIZE) context->services->set_heap_bytes(value);
  const std::lock_guard lock(context->mutex);
  context->limits[limit] = value;
  return CUDA_SUCCESS;
}

SOFTGPU_API cuCtxGetLimit(size_t* value, CUlimit limit) {
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Context> context;
  SOFTGPU_CHECK(current(&context));
  if (limit < 0 || limit >= CU_LIMIT_MAX) return CUDA_ERROR_UNSUPPORTED_LIMIT;
  const std::lock_guard lock(context->mutex);
  const auto found = context->limits.find(limit);
  const std::size_t preset = limit == CU_LIMIT_STACK_SIZE         ? 1024
                             : limit == CU_LIMIT_PRINTF_FIFO_SIZE ? 1 << 20
                             : limit == CU_LIMIT_MALLOC_HEAP_SIZE ? 8 << 20
                                                                  : 0;
  *value = found != context->limits.end() ? found->second : preset;
  return CUDA_SUCCESS;
}

SOFTGPU_API cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  std::shared_ptr<Context> context;
  SOFTGPU_CHECK(current(&context));
  if (least != nullptr) *least = 0;
  if (greatest != nullptr) *greatest = -5;
  return CUDA_SUCCESS;
}

SOFTGPU_API cuCtxGetCacheConfig(CUfunc_cache* config) {
  if (config == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *config = CU_FUNC_CACHE_PREFER_NONE;
  return initialised();
}
SOFTGPU_API cuCtxSetCacheConfig(CUfunc_cache) {
  return initialised();
}  // a hint to hardware that is not there
