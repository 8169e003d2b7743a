// Modules. A load may compile; it keeps the decoder busy for that time, as it keeps the caller.
#include "server/cuda/deferred.h"
#include "server/cuda/images.h"

namespace sluice::server {
namespace {

MemoryAccount::Key key_of(CUmodule module) {
  return {HandleTable::kind<CUmodule>(), module};
}

}  // namespace

CUresult handle(Call& call, const wire::module_load& args, wire::module_load::Reply& reply) {
  Image image;
  if (const CUresult bad = take_image(call.worker(), args.upload, &image)) return bad;
  if (!can_bind<CUmodule>(call, args.module)) return CUDA_ERROR_INVALID_VALUE;
  JitOptions options(call.blob(0), args.info_log_bytes_max, args.error_log_bytes_max);
  Worker& worker = call.worker();
  CUmodule module = nullptr;
  MemoryAccount::Amount amount{worker.current_device(), MemoryKind::kModule, 0};
  const CUresult result = worker.memory().draw_measured(
      &amount,
      [&] {
        return call.driver().cuModuleLoadDataEx(&module, image.bytes.data(), options.count(),
                                                options.options(), options.values());
      },
      [&] { call.driver().cuModuleUnload(module); });
  options.give_logs(call, &reply.info_log_bytes, &reply.error_log_bytes);
  if (result != CUDA_SUCCESS) return result;
  worker.memory().note_made(key_of(module), amount, worker.current());
  return bind(call, args.module, module);
}

CUresult handle(Call& call, const wire::module_get_function& args,
                wire::module_get_function::Reply& reply) {
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  if (const CUresult bad = native(call, args.module, &module)) return bad;
  if (const CUresult bad =
          call.driver().cuModuleGetFunction(&function, module, text_of(call.blob(0)).c_str()))
    return bad;
  if (const CUresult bad = bind(call, args.function, function)) return bad;
  describe_function(call, args.function, function, &reply.layout_bytes, &reply.attributes_bytes);
  return CUDA_SUCCESS;
}

CUresult handle(Call& call, const wire::cuModuleUnload& args, wire::cuModuleUnload::Reply&) {
  CUmodule module = nullptr;
  if (const CUresult bad = native(call, args.hmod, &module)) return bad;
  unbind<CUmodule>(call, args.hmod);
  Worker& worker = call.worker();
  ++worker.pending_frees;
  worker.after_context(answering<wire::cuModuleUnload>(call, [&worker, module](CUresult, auto&) {
    const CUresult result = worker.memory().release_made(
        key_of(module), [&] { return worker.driver().cuModuleUnload(module); });
    --worker.pending_frees;
    return result;
  }));
  return CUDA_SUCCESS;
}

CUresult handle(Call& call, const wire::cuModuleGetGlobal_v2& args,
                wire::cuModuleGetGlobal_v2::Reply& reply) {
  CUmodule module = nullptr;
  if (const CUresult bad = native(call, args.hmod, &module)) return bad;
  CUdeviceptr at = 0;
  std::size_t bytes = 0;
  if (const CUresult bad =
          call.driver().cuModuleGetGlobal_v2(&at, &bytes, module, text_of(call.blob(0)).c_str()))
    return bad;
  reply.dptr = at;
  reply.bytes = bytes;
  return CUDA_SUCCESS;
}

}  // namespace sluice::server
