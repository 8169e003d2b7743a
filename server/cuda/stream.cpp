// Streams: named by the shim; waiting is answered by completion.
#include "server/cuda/deferred.h"

namespace sluice::server {

CUresult handle(Call& call, const wire::stream_create& args, wire::stream_create::Reply&) {
  if (!can_bind<CUstream>(call, args.stream)) return CUDA_ERROR_INVALID_VALUE;
  CUstream stream = nullptr;
  if (const CUresult bad =
          call.driver().cuStreamCreateWithPriority(&stream, args.flags, args.priority))
    return bad;
  call.worker().streams().add(call.worker().current(), stream,
                              (args.flags & CU_STREAM_NON_BLOCKING) == 0);
  return bind(call, args.stream, stream);
}

CUresult handle(Call& call, const wire::cuStreamDestroy_v2& args,
                wire::cuStreamDestroy_v2::Reply&) {
  CUstream stream = nullptr;
  if (const CUresult bad = native(call, args.hStream, &stream)) return bad;
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  unbind<CUstream>(call, args.hStream);
  Worker& worker = call.worker();
  // A context-wide wait must still cover its work: the driver's stream lives until that has
  // completed.
  worker.after_stream(stream, Completer::Kind::kAnswer, [](CUresult) {});
  worker.streams().retire(worker.streams().find(worker.current(), stream));
  return CUDA_SUCCESS;
}

CUresult handle(Call& call, const wire::cuStreamSynchronize& args,
                wire::cuStreamSynchronize::Reply&) {
  CUstream stream = nullptr;
  if (const CUresult bad = native(call, args.hStream, &stream)) return bad;
  call.worker().after_stream(
      stream, Completer::Kind::kAnswer,
      answering<wire::cuStreamSynchronize>(call, [](CUresult before, auto&) { return before; }));
  return CUDA_SUCCESS;
}

CUresult handle(Call& call, const wire::stream_query& args, wire::stream_query::Reply&) {
  CUstream stream = nullptr;
  if (const CUresult bad = native(call, args.stream, &stream)) return bad;
  Worker& worker = call.worker();
  const CUresult state = call.driver().cuStreamQuery(stream);
  if (state == CUDA_ERROR_NOT_READY) {
    // Perhaps only because of an event of our own behind the client's last command.
    const StreamRef known = worker.streams().find(worker.current(), stream);
    const std::uint64_t before_this = known->issued - (known->captures == 0 ? 1 : 0);
    if (stream == nullptr || known->completed.load() < before_this) return state;
  } else if (state != CUDA_SUCCESS) {
    return state;
  }
  worker.after_stream(
      stream, Completer::Kind::kAnswer,
      answering<wire::stream_query>(call, [](CUresult before, auto&) { return before; }));
  return CUDA_SUCCESS;
}

CUresult handle(Call& call, const wire::stream_marker& args, wire::stream_marker::Reply&) {
  CUstream stream = nullptr;
  if (const CUresult bad = native(call, args.stream, &stream)) return bad;
  Worker& worker = call.worker();
  worker.after_stream(stream, Completer::Kind::kAnswer,
                      [&worker, request = call.header(), marker = args.marker](CUresult result) {
                        wire::marker_done push{};
                        push.marker = marker;
                        worker.outbox().push(push, request, result);
                      });
  return CUDA_SUCCESS;
}

}  // namespace sluice::server
