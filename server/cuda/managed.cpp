// Memory that the program and its kernels use in place (server/worker/shadows.h).
#include "server/cuda/deferred.h"

namespace sluice::server {

CUresult handle(Call& call, const wire::shadow_create& args, wire::shadow_create::Reply& reply) {
  Worker& worker = call.worker();
  CUdeviceptr device = 0;
  const CUresult result =
      worker.shadows().create(args.range, args.address, args.bytes, worker.current(), &device);
  reply.device = device;
  return result;
}

CUresult handle(Call& call, const wire::shadow_write& args, wire::shadow_write::Reply&) {
  return call.worker().shadows().write(args.range, call.blob(0));
}

CUresult handle(Call& call, const wire::shadow_free& args, wire::shadow_free::Reply&) {
  Worker& worker = call.worker();
  const CUcontext context = worker.shadows().context_of(args.range);
  if (context == nullptr) return CUDA_SUCCESS;  // gone with its context
  worker.after_context_of(context,
                          [&worker, id = args.range](CUresult) { worker.shadows().free(id); });
  return CUDA_SUCCESS;
}

}  // namespace sluice::server
