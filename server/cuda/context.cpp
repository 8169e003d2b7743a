// Contexts. The shim keeps stacks and reference counts; here are only creation, destruction and the
// context-wide wait.
#include "common/log.h"
#include "server/cuda/deferred.h"
#include "server/worker/graphs.h"

namespace sluice::server {
namespace {

/// A context takes device memory that no slice is charged for: so many that no program misses one,
/// so few that a runaway ends.
constexpr std::size_t kContextsMax = 1024;

/// How long taking a context away waits for its work, so that results and prints still arrive; a
/// kernel that is endless ends with its context.
constexpr std::chrono::seconds kPatience{2};

CUresult create(const DriverTable& driver, CUdevice device, unsigned flags, bool is_primary,
                CUcontext* out) {
  if (is_primary) {
    if (driver.cuDevicePrimaryCtxSetFlags_v2 != nullptr && flags != 0)
      driver.cuDevicePrimaryCtxSetFlags_v2(device, flags);
    return driver.cuDevicePrimaryCtxRetain(out, device);
  }
  if (driver.cuCtxCreate_v4 == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  const CUresult result = driver.cuCtxCreate_v4(out, nullptr, flags, device);
  // Creation makes it current on this thread; the next record says itself which context it wants.
  CUcontext popped = nullptr;
  if (result == CUDA_SUCCESS) driver.cuCtxPopCurrent_v2(&popped);
  return result;
}

MemoryAccount::Key key_of(CUcontext context) {
  return {HandleTable::kind<CUcontext>(), context};
}

/// Stacks, heap and print buffer of a context's kernels: they are charged apart from it.
MemoryAccount::Key local_key_of(CUcontext context) {
  static constexpr char kTag = 0;
  return {&kTag, context};
}

/// A context, or one reference more to the primary one. memory_mutex is held.
CUresult make(Worker& worker, const wire::context_create& args, CUdevice device, CUcontext* out) {
  if (worker.contexts.size() >= kContextsMax) {
    SLUICE_LOG_WARN("driver", "a session may have {} contexts", kContextsMax);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  const bool is_primary = args.is_primary != 0;
  if (const CUresult bad = create(worker.driver(), device, args.flags, is_primary, out)) return bad;
  Worker::Context& known = worker.contexts[*out];
  known.device = args.device;
  known.is_primary = is_primary;
  // References of our own are not counted twice: one per wire id.
  ++known.retains;
  return CUDA_SUCCESS;
}

/// Takes back what make() has just made. memory_mutex is held.
void unmake(Worker& worker, CUdevice device, CUcontext context) {
  const auto found = worker.contexts.find(context);
  if (found->second.is_primary)
    worker.driver().cuDevicePrimaryCtxRelease_v2(device);
  else
    worker.driver().cuCtxDestroy_v2(context);
  if (--found->second.retains == 0) worker.contexts.erase(found);
}

/// Everything the context still had was freed with it. memory_mutex is held.
void refund_context(Worker& worker, CUcontext context) {
  for (auto a = worker.allocations.begin(); a != worker.allocations.end();) {
    if (a->second.context == context) {
      worker.memory().give_back(a->second.amount);
      a = worker.allocations.erase(a);
    } else {
      ++a;
    }
  }
  worker.memory().forget_context(context);
}

/// One wire id less; the last one takes the context with it. What it is, is known here: the
/// client's word would let it be refunded for memory that it keeps.
CUresult destroy(Worker& worker, CUcontext context, bool is_reset) {
  const DriverTable& driver = worker.driver();
  const std::lock_guard lock(worker.memory_mutex);
  const auto found = worker.contexts.find(context);
  if (found == worker.contexts.end()) return CUDA_ERROR_INVALID_CONTEXT;
  Worker::Context& known = found->second;
  const auto device = static_cast<CUdevice>(known.device);
  const bool is_last = known.retains == 1 || is_reset;
  if (is_last) {
    worker.completer().forget(context);
    worker.meter().forget(context);
    worker.staging().forget(context);
    worker.shared_staging().forget(context);
    worker.graphs->forget(context);
    worker.shadows().forget(context);
  }
  CUresult result = CUDA_SUCCESS;
  if (!known.is_primary) {
    result = driver.cuCtxDestroy_v2(context);
  } else {
    if (is_reset) result = driver.cuDevicePrimaryCtxReset_v2(device);
    // A reset keeps the references; those of this session are over with it.
    for (unsigned i = is_last ? known.retains : 1; i > 0; --i) {
      const CUresult released = driver.cuDevicePrimaryCtxRelease_v2(device);
      if (!is_reset) result = released;
    }
  }
  if (result != CUDA_SUCCESS) {
    SLUICE_LOG_WARN("driver", "a context could not be destroyed, result={}",
                    static_cast<int>(result));
    return result;
  }
  if (!is_last) {
    --known.retains;
    return result;
  }
  refund_context(worker, context);
  worker.contexts.erase(found);
  return result;
}

}  // namespace

CUresult handle(Call& call, const wire::context_create& args, wire::context_create::Reply&) {
  Worker& worker = call.worker();
  if (!can_bind<CUcontext>(call, args.context)) return CUDA_ERROR_INVALID_VALUE;
  const auto device = static_cast<CUdevice>(args.device);
  CUdevice same{};
  if (const CUresult bad = call.driver().cuDeviceGet(&same, device)) return bad;
  CUcontext context = nullptr;
  MemoryAccount::Amount amount{args.device, MemoryKind::kContext, 0};
  const CUresult result = worker.memory().draw_measured(
      &amount,
      [&] {
        const std::lock_guard lock(worker.memory_mutex);
        return make(worker, args, same, &context);
      },
      [&] {
        const std::lock_guard lock(worker.memory_mutex);
        unmake(worker, same, context);
      });
  if (result != CUDA_SUCCESS) return result;
  worker.memory().note_made(key_of(context), amount, context);
  worker.completer().remember(context);
  return bind(call, args.context, context);
}

CUresult handle(Call& call, const wire::context_destroy& args, wire::context_destroy::Reply&) {
  CUcontext context = nullptr;
  if (const CUresult bad = native(call, args.context, &context)) return bad;
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  unbind<CUcontext>(call, args.context);
  Worker& worker = call.worker();
  bool is_last = false;
  {
    const std::lock_guard lock(worker.memory_mutex);
    const auto found = worker.contexts.find(context);
    is_last = found != worker.contexts.end() &&
              (found->second.retains == 1 || (args.is_reset != 0 && found->second.is_primary));
  }
  worker.after_context_of(context,
                          answering<wire::context_destroy>(
                              call,
                              [&worker, context, is_reset = args.is_reset != 0](CUresult, auto&) {
                                const CUresult result = destroy(worker, context, is_reset);
                                worker.report_memory();  // what libraries had in it is gone
                                return result;
                              }),
                          is_last ? Completer::Patience(kPatience) : std::nullopt);
  if (is_last) {
    worker.upload_order().forget(context);
    worker.streams().forget(context);
  }
  worker.leave_context();
  return CUDA_SUCCESS;
}

CUresult handle(Call& call, const wire::cuCtxSetLimit& args, wire::cuCtxSetLimit::Reply&) {
  Worker& worker = call.worker();
  const DriverTable& driver = call.driver();
  if (driver.cuCtxSetLimit == nullptr || driver.cuCtxGetLimit == nullptr)
    return CUDA_ERROR_NOT_SUPPORTED;
  const auto limit = static_cast<CUlimit>(args.limit);
  std::size_t before = 0;
  if (const CUresult bad = driver.cuCtxGetLimit(&before, limit)) return bad;
  MemoryAccount::Amount amount{worker.current_device(), MemoryKind::kLocal, 0};
  const CUresult result = worker.memory().draw_measured(
      &amount, [&] { return driver.cuCtxSetLimit(limit, args.value); },
      [&] { driver.cuCtxSetLimit(limit, before); });
  if (result == CUDA_SUCCESS)
    worker.memory().note_made(local_key_of(worker.current()), amount, worker.current());
  return result;
}

CUresult handle(Call& call, const wire::cuCtxSynchronize&, wire::cuCtxSynchronize::Reply&) {
  call.worker().after_context(
      answering<wire::cuCtxSynchronize>(call, [](CUresult before, auto&) { return before; }));
  return CUDA_SUCCESS;
}

}  // namespace sluice::server
