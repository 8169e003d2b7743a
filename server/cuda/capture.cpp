// Stream capture. It really happens on the driver's stream, in relaxed mode: whether a call is
// legal is the shim's to say. The worker keeps its own events out of streams that capture.
#include "server/cuda/deferred.h"
#include "server/worker/graphs.h"

namespace sluice::server {
namespace {

/// What the stream had before gets a completion of its own: none can be recorded from here on.
void close_stream(Worker& worker, CUstream stream, CUstream origin) {
  const StreamRef state = worker.streams().find(worker.current(), stream);
  if (state->captures != 0) return;
  const auto nothing = [](CUresult) {};
  worker.after_stream(stream, Completer::Kind::kAnswer, nothing);
  const StreamRef legacy = worker.streams().find(state->context, nullptr);
  if (state->is_blocking && legacy->captures == 0 && legacy->is_busy() &&
      state->context == worker.current())
    worker.after_stream(nullptr, Completer::Kind::kAnswer, nothing);
  worker.streams().begin_capture(state, origin);
}

}  // namespace

CUresult handle(Call& call, const wire::cuStreamBeginCapture_v2& args,
                wire::cuStreamBeginCapture_v2::Reply&) {
  const DriverTable& driver = call.driver();
  if (driver.cuStreamBeginCapture_v2 == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  CUstream stream = nullptr;
  if (const CUresult bad = native(call, args.hStream, &stream)) return bad;
  if (stream == nullptr) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  Worker& worker = call.worker();
  close_stream(worker, stream, stream);
  const CUresult result = driver.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
  if (result != CUDA_SUCCESS) worker.streams().end_capture(stream);
  return result;
}

CUresult handle(Call& call, const wire::capture_join& args, wire::capture_join::Reply&) {
  CUstream stream = nullptr;
  CUstream origin = nullptr;
  if (const CUresult bad = native(call, args.stream, &stream)) return bad;
  if (const CUresult bad = native(call, args.origin, &origin)) return bad;
  if (stream == nullptr || origin == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  close_stream(call.worker(), stream, origin);
  return CUDA_SUCCESS;
}

namespace {

CUresult end_capture(Call& call, std::uint64_t id, CUgraph* graph) {
  const DriverTable& driver = call.driver();
  if (driver.cuStreamEndCapture == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  CUstream stream = nullptr;
  if (const CUresult bad = native(call, id, &stream)) return bad;
  const CUresult result = driver.cuStreamEndCapture(stream, graph);
  call.worker().streams().end_capture(stream);
  return result;
}

}  // namespace

CUresult handle(Call& call, const wire::cuStreamEndCapture& args,
                wire::cuStreamEndCapture::Reply&) {
  if (!can_bind<CUgraph>(call, args.phGraph)) return CUDA_ERROR_INVALID_VALUE;
  CUgraph graph = nullptr;
  if (const CUresult bad = end_capture(call, args.hStream, &graph)) return bad;
  return bind(call, args.phGraph, graph);
}

CUresult handle(Call& call, const wire::capture_abort& args, wire::capture_abort::Reply&) {
  CUgraph graph = nullptr;
  const CUresult result = end_capture(call, args.stream, &graph);
  // That it had been spoilt, or has forks that nobody joins, is why it is given up.
  if (result != CUDA_SUCCESS) return CUDA_SUCCESS;
  return graph != nullptr ? call.driver().cuGraphDestroy(graph) : CUDA_SUCCESS;
}

CUresult handle(Call& call, const wire::capture_copy& args, wire::capture_copy::Reply&) {
  CUstream stream = nullptr;
  if (const CUresult bad = native(call, args.stream, &stream)) return bad;
  std::byte* twin = call.worker().graphs->find_twin(args.twin, args.offset, args.bytes);
  if (twin == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const DriverTable& driver = call.driver();
  return args.is_download != 0 ? driver.cuMemcpyDtoHAsync_v2(twin, args.device, args.bytes, stream)
                               : driver.cuMemcpyHtoDAsync_v2(args.device, twin, args.bytes, stream);
}

CUresult handle(Call& call, const wire::capture_host_func& args, wire::capture_host_func::Reply&) {
  CUstream stream = nullptr;
  if (const CUresult bad = native(call, args.stream, &stream)) return bad;
  return call.worker().graphs->capture_host_function(stream, args.node);
}

CUresult handle(Call& call, const wire::twin_create& args, wire::twin_create::Reply&) {
  return call.worker().graphs->create_twin(args.twin, args.bytes);
}

CUresult handle(Call& call, const wire::twin_free& args, wire::twin_free::Reply&) {
  Worker& worker = call.worker();
  const CUcontext context = worker.graphs->context_of(args.twin);
  if (context == nullptr) return CUDA_SUCCESS;  // gone with its context
  worker.after_context_of(context,
                          [&worker, id = args.twin](CUresult) { worker.graphs->free_twin(id); });
  return CUDA_SUCCESS;
}

}  // namespace sluice::server
