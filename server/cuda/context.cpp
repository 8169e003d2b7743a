// Contexts. The shim keeps stacks and reference counts; here are only creation, destruction and the
// context-wide wait.
#include "server/cuda/deferred.h"

namespace sluice::server {

CUresult handle(Call& call, const wire::context_create& args, wire::context_create::Reply&) {
  const DriverTable& driver = call.driver();
  Worker& worker = call.worker();
  CUdevice device{};
  if (const CUresult bad = driver.cuDeviceGet(&device, static_cast<int>(args.device))) return bad;
  CUcontext context = nullptr;
  CUresult result = CUDA_ERROR_NOT_SUPPORTED;
  if (args.is_primary != 0) {
    if (driver.cuDevicePrimaryCtxSetFlags_v2 != nullptr && args.flags != 0)
      driver.cuDevicePrimaryCtxSetFlags_v2(device, args.flags);
    result = driver.cuDevicePrimaryCtxRetain(&context, device);
  } else if (driver.cuCtxCreate_v4 != nullptr) {
    result = driver.cuCtxCreate_v4(&context, nullptr, args.flags, device);
    // Creation makes it current on this thread; the next record says itself which context it wants.
    CUcontext popped = nullptr;
    if (result == CUDA_SUCCESS) driver.cuCtxPopCurrent_v2(&popped);
  }
  if (result != CUDA_SUCCESS) return result;
  worker.completer().remember(context);
  worker.context_devices[context] = args.device;
  return bind(call, args.context, context);
}

namespace {
/// Everything the context still had is freed with it.
void refund_context(Worker& worker, CUcontext context) {
  const std::lock_guard lock(worker.allocations_mutex);
  for (auto a = worker.allocations.begin(); a != worker.allocations.end();) {
    if (a->second.context == context) {
      worker.ledger().refund(a->second.device, a->second.charged_bytes);
      worker.memory_bytes -= a->second.charged_bytes;
      a = worker.allocations.erase(a);
    } else {
      ++a;
    }
  }
}
}  // namespace

CUresult handle(Call& call, const wire::context_destroy& args, wire::context_destroy::Reply&) {
  CUcontext context = nullptr;
  if (const CUresult bad = native(call, args.context, &context)) return bad;
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  unbind<CUcontext>(call, args.context);
  Worker& worker = call.worker();
  const auto device = static_cast<CUdevice>(args.device);
  const bool is_primary = args.is_primary != 0;
  const bool is_reset = args.is_reset != 0;
  const auto destroy = [&worker, context, device, is_primary, is_reset](
                           CUresult, wire::context_destroy::Reply&) {
    const DriverTable& driver = worker.driver();
    worker.completer().forget(context);
    worker.meter().forget(context);
    const CUresult result = !is_primary ? driver.cuCtxDestroy_v2(context)
                            : is_reset  ? driver.cuDevicePrimaryCtxReset_v2(device)
                                        : driver.cuDevicePrimaryCtxRelease_v2(device);
    refund_context(worker, context);
    return result;
  };
  worker.after_context_of(context, Completer::Kind::kAnswer,
                          answering<wire::context_destroy>(call, destroy));
  return CUDA_SUCCESS;
}

CUresult handle(Call& call, const wire::cuCtxSynchronize&, wire::cuCtxSynchronize::Reply&) {
  call.worker().after_context(
      Completer::Kind::kAnswer,
      answering<wire::cuCtxSynchronize>(call, [](CUresult before, auto&) { return before; }));
  return CUDA_SUCCESS;
}

}  // namespace sluice::server
