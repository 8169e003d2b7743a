// Libraries: modules that need no context; what the CUDA runtime loads a program's kernels with.
#include "server/cuda/deferred.h"
#include "server/cuda/images.h"

namespace sluice::server {
namespace {

/// What drivers take for a fatbin: the wrapper that the compiler puts in front of it.
struct FatbinWrapper {
  std::uint32_t magic = 0x466243b1;
  std::uint32_t version = 1;
  const void* data = nullptr;
  const void* unused = nullptr;
};

MemoryAccount::Key key_of(CUlibrary library) {
  return {HandleTable::kind<CUlibrary>(), library};
}

CUresult unload(Worker& worker, CUlibrary library) {
  return worker.memory().release_made(key_of(library),
                                      [&] { return worker.driver().cuLibraryUnload(library); });
}

}  // namespace

CUresult handle(Call& call, const wire::library_load& args, wire::library_load::Reply& reply) {
  if (call.driver().cuLibraryLoadData == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  Image image;
  if (const CUresult bad = take_image(call.worker(), args.upload, &image)) return bad;
  if (!can_bind<CUlibrary>(call, args.library)) return CUDA_ERROR_INVALID_VALUE;
  JitOptions options(call.blob(0), args.info_log_bytes_max, args.error_log_bytes_max);
  FatbinWrapper wrapper;
  wrapper.data = image.bytes.data();
  const void* code = image.is_fatbin() ? static_cast<const void*>(&wrapper) : image.bytes.data();
  Worker& worker = call.worker();
  CUlibrary library = nullptr;
  MemoryAccount::Amount amount{worker.current_device(), MemoryKind::kModule, 0};
  const CUresult result = worker.memory().draw_measured(
      &amount,
      [&] {
        return call.driver().cuLibraryLoadData(&library, code, options.options(), options.values(),
                                               options.count(), nullptr, nullptr, 0);
      },
      [&] { call.driver().cuLibraryUnload(library); });
  options.give_logs(call, &reply.info_log_bytes, &reply.error_log_bytes);
  if (result != CUDA_SUCCESS) return result;
  worker.memory().note_made(key_of(library), amount, nullptr);
  return bind(call, args.library, library);
}

CUresult handle(Call& call, const wire::library_get_kernel& args,
                wire::library_get_kernel::Reply& reply) {
  CUlibrary library = nullptr;
  CUkernel kernel = nullptr;
  if (const CUresult bad = native(call, args.library, &library)) return bad;
  if (const CUresult bad =
          call.driver().cuLibraryGetKernel(&kernel, library, text_of(call.blob(0)).c_str()))
    return bad;
  if (const CUresult bad = bind(call, args.kernel, kernel)) return bad;
  describe_kernel(call, args.kernel, kernel, &reply.layout_bytes, &reply.attributes_bytes);
  return CUDA_SUCCESS;
}

CUresult handle(Call& call, const wire::kernel_get_function& args,
                wire::kernel_get_function::Reply&) {
  CUkernel kernel = nullptr;
  CUfunction function = nullptr;
  if (const CUresult bad = native(call, args.kernel, &kernel)) return bad;
  if (const CUresult bad = call.driver().cuKernelGetFunction(&function, kernel)) return bad;
  if (const CUresult bad = bind(call, args.function, function)) return bad;
  call.worker().function_layouts[args.function] = call.worker().kernel_layouts[args.kernel];
  return CUDA_SUCCESS;
}

CUresult handle(Call& call, const wire::library_get_module& args,
                wire::library_get_module::Reply&) {
  CUlibrary library = nullptr;
  CUmodule module = nullptr;
  if (const CUresult bad = native(call, args.library, &library)) return bad;
  if (const CUresult bad = call.driver().cuLibraryGetModule(&module, library)) return bad;
  return bind(call, args.module, module);
}

CUresult handle(Call& call, const wire::cuLibraryUnload& args, wire::cuLibraryUnload::Reply&) {
  CUlibrary library = nullptr;
  if (const CUresult bad = native(call, args.library, &library)) return bad;
  unbind<CUlibrary>(call, args.library);
  Worker& worker = call.worker();
  if (worker.current() == nullptr) return unload(worker, library);
  ++worker.pending_frees;
  worker.after_context(answering<wire::cuLibraryUnload>(call, [&worker, library](CUresult, auto&) {
    const CUresult result = unload(worker, library);
    --worker.pending_frees;
    return result;
  }));
  return CUDA_SUCCESS;
}

CUresult handle(Call& call, const wire::cuLibraryGetGlobal& args,
                wire::cuLibraryGetGlobal::Reply& reply) {
  CUlibrary library = nullptr;
  if (const CUresult bad = native(call, args.library, &library)) return bad;
  CUdeviceptr at = 0;
  std::size_t bytes = 0;
  if (const CUresult bad =
          call.driver().cuLibraryGetGlobal(&at, &bytes, library, text_of(call.blob(0)).c_str()))
    return bad;
  reply.dptr = at;
  reply.bytes = bytes;
  return CUDA_SUCCESS;
}

}  // namespace sluice::server
