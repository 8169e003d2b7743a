// Contexts: the stack of each thread and the counts of the primary contexts live here; the worker
// only creates and destroys. Handles of destroyed contexts stay known, so that threads which have
// one current get CUDA's answer.
#include "protocol/context.h"

#include "shim/api.h"

#include <algorithm>

using namespace sluice;
using namespace sluice::shim;

namespace {

CUresult create_on_server(Context& context, bool is_primary) {
  wire::context_create args{};
  const std::uint32_t id = session().next_context_id();
  args.context = id;
  args.device = session().devices().ordinal(context.device);
  args.flags = context.flags;
  args.is_primary = is_primary ? 1 : 0;
  wire::context_create::Reply reply{};
  if (const CUresult failed = call(args, reply)) return failed;
  context.sticky = CUDA_SUCCESS;
  context.wire_id = id;
  context.is_alive = true;
  return CUDA_SUCCESS;
}

/// Everything that belonged to it is gone with it, here at once.
CUresult destroy_on_server(Context& context, bool is_reset) {
  wire::context_destroy args{};
  args.context = context.wire_id.load();
  args.device = session().devices().ordinal(context.device);
  args.is_primary = context.is_primary ? 1 : 0;
  args.is_reset = is_reset ? 1 : 0;
  wire::context_destroy::Reply reply{};
  session().memory().forget(context);
  const CUresult result = call(args, reply);
  context.is_alive = false;
  context.wire_id = 0;  // it may stay current: what needs no context is not to name this one
  session().addresses().remove_context(context);
  handles().remove_owned(context.serial, &drop_object);
  return is_sticky(result) ? CUDA_SUCCESS : result;
}

constexpr unsigned kFlagsAllowed = CU_CTX_SCHED_MASK | CU_CTX_MAP_HOST | CU_CTX_LMEM_RESIZE_TO_MAX |
                                   CU_CTX_COREDUMP_ENABLE | CU_CTX_USER_COREDUMP_ENABLE |
                                   CU_CTX_SYNC_MEMOPS;

bool are_flags_valid(unsigned flags) {
  const unsigned schedule = flags & CU_CTX_SCHED_MASK;
  return (flags & ~kFlagsAllowed) == 0 && (schedule & (schedule - 1)) == 0;
}

CUresult create(wire::Fn fn, CUcontext* out, unsigned flags, CUdevice dev) {
  if (const CUresult refused = enter_needing(fn, wire::Needs::kInit)) return refused;
  if (out == nullptr || !are_flags_valid(flags)) return CUDA_ERROR_INVALID_VALUE;
  if (!session().devices().has(dev)) return CUDA_ERROR_INVALID_DEVICE;
  Context* context = session().new_context(dev, flags);
  if (const CUresult failed = create_on_server(*context, false)) return failed;
  thread_state().contexts.push_back(context);
  *out = context->handle;
  return CUDA_SUCCESS;
}

CUresult enter_device(wire::Fn fn, CUdevice dev) {
  if (const CUresult refused = enter_needing(fn, wire::Needs::kInit)) return refused;
  return session().devices().has(dev) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

/// A live context.
CUresult live_context(CUcontext handle, Context** context) {
  *context = object_of<Context>(handle);
  return *context != nullptr && (*context)->is_alive ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

/// Retain, release and reset of one device's context do not overlap; they wait for the server.
std::mutex& primary_mutex() {
  static constinit std::mutex mutex;
  return mutex;
}

}  // namespace

#undef cuCtxCreate
SLUICE_API cuCtxCreate(CUcontext* pctx, unsigned int flags, CUdevice dev) {
  return create(wire::Fn::cuCtxCreate_v4, pctx, flags, dev);
}

SLUICE_API cuCtxCreate_v2(CUcontext* pctx, unsigned int flags, CUdevice dev) {
  return create(wire::Fn::cuCtxCreate_v4, pctx, flags, dev);
}

SLUICE_API cuCtxCreate_v3(CUcontext* pctx, CUexecAffinityParam* paramsArray, int numParams,
                          unsigned int flags, CUdevice dev) {
  if (paramsArray != nullptr || numParams != 0) return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
  return create(wire::Fn::cuCtxCreate_v4, pctx, flags, dev);
}

SLUICE_API cuCtxCreate_v4(CUcontext* pctx, CUctxCreateParams* ctxCreateParams, unsigned int flags,
                          CUdevice dev) {
  if (ctxCreateParams != nullptr) {
    if (ctxCreateParams->numExecAffinityParams != 0) return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
    if (ctxCreateParams->cigParams != nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  }
  return create(wire::Fn::cuCtxCreate_v4, pctx, flags, dev);
}

SLUICE_API cuCtxDestroy_v2(CUcontext ctx) {
  if (const CUresult refused = enter_needing(wire::Fn::cuCtxDestroy_v2, wire::Needs::kInit))
    return refused;
  Context* context = nullptr;
  if (const CUresult bad = live_context(ctx, &context)) return bad;
  if (context->is_primary) return CUDA_ERROR_INVALID_CONTEXT;
  const CUresult result = destroy_on_server(*context, false);
  auto& stack = thread_state().contexts;
  if (!stack.empty() && stack.back() == context) stack.pop_back();
  return result;
}

SLUICE_API cuCtxPushCurrent_v2(CUcontext ctx) {
  if (const CUresult refused = enter_needing(wire::Fn::cuCtxPushCurrent_v2, wire::Needs::kInit))
    return refused;
  Context* context = nullptr;
  if (const CUresult bad = live_context(ctx, &context)) return bad;
  thread_state().contexts.push_back(context);
  return CUDA_SUCCESS;
}

SLUICE_API cuCtxPopCurrent_v2(CUcontext* pctx) {
  if (const CUresult refused = enter_needing(wire::Fn::cuCtxPopCurrent_v2, wire::Needs::kInit))
    return refused;
  auto& stack = thread_state().contexts;
  if (stack.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  if (pctx != nullptr) *pctx = stack.back()->handle;
  stack.pop_back();
  return CUDA_SUCCESS;
}

SLUICE_API cuCtxSetCurrent(CUcontext ctx) {
  if (const CUresult refused = enter_needing(wire::Fn::cuCtxSetCurrent, wire::Needs::kInit))
    return refused;
  auto& stack = thread_state().contexts;
  Context* context = nullptr;
  if (ctx != nullptr) {
    if (const CUresult bad = live_context(ctx, &context)) return bad;
  }
  // It replaces the top of the stack; null pops it.
  if (!stack.empty()) stack.pop_back();
  if (context != nullptr) stack.push_back(context);
  return CUDA_SUCCESS;
}

SLUICE_API cuCtxGetCurrent(CUcontext* pctx) {
  if (const CUresult refused = enter_needing(wire::Fn::cuCtxGetCurrent, wire::Needs::kInit))
    return refused;
  if (pctx == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Context* context = current_context();
  *pctx = context != nullptr ? context->handle : nullptr;
  return CUDA_SUCCESS;
}

SLUICE_API cuCtxGetDevice(CUdevice* device) {
  if (const CUresult refused = enter_needing(wire::Fn::cuCtxGetDevice, wire::Needs::kInit))
    return refused;
  const Context* context = current_context();
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *device = context->device;
  return CUDA_SUCCESS;
}

SLUICE_API cuCtxGetDevice_v2(CUdevice* device, CUcontext ctx) {
  if (ctx == nullptr) return cuCtxGetDevice(device);
  if (const CUresult refused = enter_needing(wire::Fn::cuCtxGetDevice_v2, wire::Needs::kInit))
    return refused;
  Context* context = nullptr;
  if (const CUresult bad = live_context(ctx, &context)) return bad;
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *device = context->device;
  return CUDA_SUCCESS;
}

SLUICE_API cuCtxGetFlags(unsigned int* flags) {
  if (const CUresult refused = enter_needing(wire::Fn::cuCtxGetFlags, wire::Needs::kInit))
    return refused;
  const Context* context = current_context();
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *flags = context->flags;
  return CUDA_SUCCESS;
}

SLUICE_API cuCtxGetApiVersion(CUcontext ctx, unsigned int* version) {
  if (const CUresult refused = enter_needing(wire::Fn::cuCtxGetApiVersion, wire::Needs::kInit))
    return refused;
  Context* context = current_context();
  if (ctx != nullptr) {
    if (const CUresult bad = live_context(ctx, &context)) return bad;
  }
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *version = 3020;  // the interface of cuCtxCreate since CUDA 3.2
  return CUDA_SUCCESS;
}

SLUICE_API cuCtxGetId(CUcontext ctx, unsigned long long* ctxId) {
  if (const CUresult refused = enter_needing(wire::Fn::cuCtxGetId, wire::Needs::kInit))
    return refused;
  Context* context = current_context();
  if (ctx != nullptr) {
    if (const CUresult bad = live_context(ctx, &context)) return bad;
  }
  if (context == nullptr) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  if (ctxId == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *ctxId = context->serial;
  return CUDA_SUCCESS;
}

SLUICE_API cuCtxSynchronize() {
  if (const CUresult refused = enter(wire::Fn::cuCtxSynchronize)) return refused;
  if (const CUresult bad = session().captures().refuse_wait(*current_context())) return bad;
  const wire::cuCtxSynchronize args{};
  wire::cuCtxSynchronize::Reply reply{};
  std::atomic<std::uint64_t> seq{0};
  const CUresult result = call(args, reply, {}, {}, &seq);
  if (result == CUDA_SUCCESS && session().has_one_context()) session().memory().completed(seq);
  return or_deferred(result);
}

SLUICE_API cuCtxSynchronize_v2(CUcontext ctx) {
  if (ctx == nullptr) return cuCtxSynchronize();
  Context* context = nullptr;
  if (const CUresult refused = enter_needing(wire::Fn::cuCtxSynchronize_v2, wire::Needs::kInit))
    return refused;
  if (const CUresult bad = live_context(ctx, &context)) return bad;
  thread_state().contexts.push_back(context);
  const CUresult result = cuCtxSynchronize();
  thread_state().contexts.pop_back();
  return result;
}

SLUICE_API cuDevicePrimaryCtxRetain(CUcontext* pctx, CUdevice dev) {
  if (const CUresult refused = enter_device(wire::Fn::cuDevicePrimaryCtxRetain, dev))
    return refused;
  if (pctx == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Context* context = session().primary_context(dev);
  std::lock_guard lock(primary_mutex());
  if (!context->is_alive) {
    if (const CUresult failed = create_on_server(*context, true)) return failed;
    context->retained = 0;
  }
  ++context->retained;
  *pctx = context->handle;
  return CUDA_SUCCESS;
}

SLUICE_API cuDevicePrimaryCtxRelease_v2(CUdevice dev) {
  if (const CUresult refused = enter_device(wire::Fn::cuDevicePrimaryCtxRelease_v2, dev))
    return refused;
  Context* context = session().primary_context(dev);
  std::lock_guard lock(primary_mutex());
  if (!context->is_alive || context->retained == 0) return CUDA_ERROR_INVALID_CONTEXT;
  if (--context->retained > 0) return CUDA_SUCCESS;
  return destroy_on_server(*context, false);
}

SLUICE_API cuDevicePrimaryCtxReset_v2(CUdevice dev) {
  if (const CUresult refused = enter_device(wire::Fn::cuDevicePrimaryCtxReset_v2, dev))
    return refused;
  Context* context = session().primary_context(dev);
  std::lock_guard lock(primary_mutex());
  if (!context->is_alive) return CUDA_SUCCESS;
  context->retained = 0;
  return destroy_on_server(*context, true);
}

SLUICE_API cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int* flags, int* active) {
  if (const CUresult refused = enter_device(wire::Fn::cuDevicePrimaryCtxGetState, dev))
    return refused;
  const Context* context = session().primary_context(dev);
  if (flags != nullptr) *flags = context->flags;
  if (active != nullptr) *active = context->is_alive ? 1 : 0;
  return CUDA_SUCCESS;
}

SLUICE_API cuDevicePrimaryCtxSetFlags_v2(CUdevice dev, unsigned int flags) {
  if (const CUresult refused = enter_device(wire::Fn::cuDevicePrimaryCtxSetFlags_v2, dev))
    return refused;
  if (!are_flags_valid(flags)) return CUDA_ERROR_INVALID_VALUE;
  // They govern how a host thread waits, which the shim does in its own way, and what an active
  // context keeps.
  session().primary_context(dev)->flags = flags;
  return CUDA_SUCCESS;
}

SLUICE_API cuCtxSetFlags(unsigned int flags) {
  if (const CUresult refused = enter_needing(wire::Fn::cuCtxSetFlags, wire::Needs::kContext))
    return refused;
  if (!are_flags_valid(flags)) return CUDA_ERROR_INVALID_VALUE;
  current_context()->flags = flags;
  return CUDA_SUCCESS;
}
