// Kernel launches and host functions.
#include "common/log.h"
#include "protocol/launch_attributes.h"
#include "server/cuda/deferred.h"
#include "server/worker/host_functions.h"

#include <cstring>

namespace sluice::server {
namespace {

constexpr std::size_t kAttributesMax = 32;
constexpr std::size_t kParamsOnStack = 64;

/// The driver's handle of what is launched; a CUkernel is passed as a CUfunction, as CUDA allows.
CUresult callee_of(Call& call, const wire::launch& args, CUfunction* out) {
  if (args.is_kernel == 0) return native(call, args.callee, out);
  CUkernel kernel = nullptr;
  if (const CUresult bad = native(call, args.callee, &kernel)) return bad;
  *out = reinterpret_cast<CUfunction>(kernel);
  return CUDA_SUCCESS;
}

std::uint64_t cost_key_of(const wire::launch& args) {
  const std::uint64_t blocks = std::uint64_t{args.grid[0]} * args.grid[1] * args.grid[2];
  const std::uint32_t threads = args.block[0] * args.block[1] * args.block[2];
  return scheduler::CostModel::key_of(args.callee, blocks, threads, args.shared_bytes);
}

}  // namespace

CUresult handle(Call& call, const wire::launch& args, wire::launch::Reply&) {
  Worker& worker = call.worker();
  const DriverTable& driver = call.driver();
  CUfunction function = nullptr;
  CUstream stream = nullptr;
  if (const CUresult bad = callee_of(call, args, &function)) return bad;
  if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (const CUresult bad = native(call, args.stream, &stream)) return bad;
  const auto& layouts = args.is_kernel != 0 ? worker.kernel_layouts : worker.function_layouts;
  const auto layout = layouts.find(args.callee);
  if (layout == layouts.end()) return CUDA_ERROR_INVALID_HANDLE;
  if (!layout->second.is_known) {
    SLUICE_LOG_WARN("driver", "the driver does not tell parameter layouts: the launch is refused");
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  const Bytes packed = call.blob(0);
  if (packed.size() < layout->second.total_bytes) return CUDA_ERROR_INVALID_VALUE;
  void* on_stack[kParamsOnStack];
  std::vector<void*> on_heap;
  void** params = on_stack;
  if (layout->second.params.size() > kParamsOnStack) {
    on_heap.resize(layout->second.params.size());
    params = on_heap.data();
  }
  for (std::size_t i = 0; i < layout->second.params.size(); ++i)
    params[i] = const_cast<std::byte*>(packed.data()) + layout->second.params[i].offset_bytes;

  worker.begin_work(stream, cost_key_of(args));
  const Bytes attribute_bytes = call.blob(1);
  if (attribute_bytes.empty() && args.is_cooperative == 0)
    return driver.cuLaunchKernel(function, args.grid[0], args.grid[1], args.grid[2], args.block[0],
                                 args.block[1], args.block[2], args.shared_bytes, stream, params,
                                 nullptr);
  if (args.is_cooperative != 0 && attribute_bytes.empty()) {
    if (driver.cuLaunchCooperativeKernel == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
    return driver.cuLaunchCooperativeKernel(function, args.grid[0], args.grid[1], args.grid[2],
                                            args.block[0], args.block[1], args.block[2],
                                            args.shared_bytes, stream, params);
  }
  if (driver.cuLaunchKernelEx == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  const std::size_t count = attribute_bytes.size() / sizeof(CUlaunchAttribute);
  if (count > kAttributesMax || attribute_bytes.size() % sizeof(CUlaunchAttribute) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  std::vector<CUlaunchAttribute> attributes(count);
  std::memcpy(attributes.data(), attribute_bytes.data(), attribute_bytes.size());
  for (const CUlaunchAttribute& attribute : attributes) {
    unsigned id = 0;
    std::memcpy(&id, &attribute.id, sizeof id);  // any number may come
    if (!wire::is_portable_launch_attribute(id)) return CUDA_ERROR_NOT_SUPPORTED;
  }
  CUlaunchConfig config{};
  config.gridDimX = args.grid[0], config.gridDimY = args.grid[1], config.gridDimZ = args.grid[2];
  config.blockDimX = args.block[0], config.blockDimY = args.block[1],
  config.blockDimZ = args.block[2];
  config.sharedMemBytes = args.shared_bytes;
  config.hStream = stream;
  config.attrs = attributes.data();
  config.numAttrs = static_cast<unsigned>(count);
  return driver.cuLaunchKernelEx(&config, function, params, nullptr);
}

namespace {

struct HostCall {
  Worker* worker;
  wire::RecordHeader request;
  std::uint64_t token;

  /// On a thread of the driver. What the application's function may look at must have been sent,
  /// and no function of the driver may be called here: the completer does both.
  void run(CUresult status) const {
    worker->completer().post([worker = worker, request = request, token = token, status](CUresult) {
      wire::host_func_run push{};
      push.token = token;
      push.node = 0;
      worker->outbox().push(push, request, status);
    });
    worker->host_functions->wait(token);
  }
};

void CUDA_CB run_host_func(void* data) {
  const std::unique_ptr<HostCall> call(static_cast<HostCall*>(data));
  call->run(CUDA_SUCCESS);
}

void CUDA_CB run_callback(CUstream, CUresult status, void* data) {
  const std::unique_ptr<HostCall> call(static_cast<HostCall*>(data));
  call->run(status);
}

}  // namespace

CUresult handle(Call& call, const wire::host_func& args, wire::host_func::Reply&) {
  Worker& worker = call.worker();
  CUstream stream = nullptr;
  if (const CUresult bad = native(call, args.stream, &stream)) return bad;
  {
    const std::lock_guard lock(worker.host_functions->mutex);
    if (!worker.host_functions->running.insert(args.token).second) return CUDA_ERROR_INVALID_VALUE;
  }
  auto data = std::make_unique<HostCall>(HostCall{&worker, call.header(), args.token});
  const CUresult result =
      args.is_callback != 0 ? call.driver().cuStreamAddCallback(stream, run_callback, data.get(), 0)
                            : call.driver().cuLaunchHostFunc(stream, run_host_func, data.get());
  if (result != CUDA_SUCCESS) {
    worker.host_functions->drop(args.token);
    return result;
  }
  static_cast<void>(data.release());  // the callback owns it now
  return result;
}

CUresult handle(Call& call, const wire::host_func_done& args, wire::host_func_done::Reply&) {
  call.worker().host_functions->finish(args.token);
  return CUDA_SUCCESS;
}

}  // namespace sluice::server
