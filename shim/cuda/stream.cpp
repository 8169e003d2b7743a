// Streams: flags and priority are kept here, queries are answered from pushed markers.
#include "protocol/stream.h"

#include "protocol/capture.h"
#include "shim/api.h"
#include "shim/copies.h"
#include "shim/host_order.h"

#include <utility>

using namespace sluice;
using namespace sluice::shim;

namespace {

CUresult create(CUstream* out, unsigned flags, int priority) {
  if (out == nullptr || (flags & ~static_cast<unsigned>(CU_STREAM_NON_BLOCKING)) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  wire::stream_create args{};
  args.stream = reserve_id();
  args.flags = flags;
  args.priority = priority;
  if (const CUresult failed = post(args)) return failed;
  Stream* stream = make_stream(args.stream, flags, priority);
  stream->waits_seen = session().completions().waits();
  Entry entry;
  entry.id = args.stream;
  entry.object = stream;
  entry.owner = current_context()->serial;
  stream->handle = new_handle<CUstream>(entry);
  *out = stream->handle;
  return stream->handle != nullptr ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/// For questions about a stream: nothing is counted as work.
CUresult enter_query(wire::Fn fn, CUstream handle, const void* out, Stream** stream) {
  if (const CUresult refused = enter_needing(fn, wire::Needs::kContext)) return refused;
  if (const CUresult bad = find_stream(handle, stream)) return bad;
  return out != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace

SLUICE_API cuStreamCreate(CUstream* phStream, unsigned int Flags) {
  if (const CUresult refused = enter(wire::Fn::cuStreamCreate)) return refused;
  return create(phStream, Flags, 0);
}

SLUICE_API cuStreamCreateWithPriority(CUstream* phStream, unsigned int flags, int priority) {
  if (const CUresult refused = enter(wire::Fn::cuStreamCreateWithPriority)) return refused;
  // The worker's driver clamps it to its range, as the manual says.
  return create(phStream, flags, priority);
}

SLUICE_API cuStreamDestroy_v2(CUstream hStream) {
  if (const CUresult refused = enter(wire::Fn::cuStreamDestroy_v2)) return refused;
  Entry entry;
  if (!handles().remove(Kind::kStream, handle_bits(hStream), &entry))
    return CUDA_ERROR_INVALID_HANDLE;
  abandon_capture(*static_cast<Stream*>(entry.object));
  wire::cuStreamDestroy_v2 args{};
  args.hStream = entry.id;
  const CUresult result = post(args);
  drop_object(Kind::kStream, entry);
  return result;
}

SLUICE_API cuStreamSynchronize(CUstream hStream) {
  if (const CUresult refused = enter(wire::Fn::cuStreamSynchronize)) return refused;
  Stream* stream = nullptr;
  if (const CUresult bad = find_stream(hStream, &stream)) return bad;
  if (const CUresult bad = session().captures().refuse_wait(*stream)) return bad;
  const std::uint64_t uses = uses_of(*stream);
  wire::cuStreamSynchronize args{};
  args.hStream = stream->id;
  wire::cuStreamSynchronize::Reply reply{};
  const CUresult result = call(args, reply);
  if (result == CUDA_SUCCESS) session().completions().completed(*stream, uses);
  return or_deferred(result);
}

SLUICE_API cuStreamQuery(CUstream hStream) {
  if (const CUresult refused = enter_needing(wire::Fn::cuStreamQuery, wire::Needs::kContext))
    return refused;
  Stream* stream = nullptr;
  if (const CUresult bad = find_stream(hStream, &stream)) return bad;
  if (const CUresult bad = session().captures().refuse_wait(*stream)) return bad;
  const CUresult result = session().completions().query(*stream, current_context_id());
  if (is_sticky(result) && result != kSessionLost)
    session().note_failure(result, current_context_id());
  return or_deferred(result);
}

SLUICE_API cuStreamGetFlags(CUstream hStream, unsigned int* flags) {
  Stream* stream = nullptr;
  if (const CUresult bad = enter_query(wire::Fn::cuStreamGetFlags, hStream, flags, &stream))
    return bad;
  *flags = stream->flags;
  return CUDA_SUCCESS;
}

SLUICE_API cuStreamGetPriority(CUstream hStream, int* priority) {
  Stream* stream = nullptr;
  if (const CUresult bad = enter_query(wire::Fn::cuStreamGetPriority, hStream, priority, &stream))
    return bad;
  *priority = stream->priority;
  return CUDA_SUCCESS;
}

SLUICE_API cuStreamGetId(CUstream hStream, unsigned long long* streamId) {
  Stream* stream = nullptr;
  if (const CUresult bad = enter_query(wire::Fn::cuStreamGetId, hStream, streamId, &stream))
    return bad;
  *streamId = stream->id == 0 ? handle_bits(CU_STREAM_LEGACY) : stream->serial + 1;
  return CUDA_SUCCESS;
}

SLUICE_API cuStreamGetCtx(CUstream hStream, CUcontext* pctx) {
  Stream* stream = nullptr;
  if (const CUresult bad = enter_query(wire::Fn::cuStreamGetCtx, hStream, pctx, &stream))
    return bad;
  *pctx = stream->context->handle;
  return CUDA_SUCCESS;
}

SLUICE_API cuStreamGetCtx_v2(CUstream hStream, CUcontext* pCtx, CUgreenCtx* pGreenCtx) {
  Stream* stream = nullptr;
  if (const CUresult bad = enter_query(wire::Fn::cuStreamGetCtx_v2, hStream, pCtx, &stream))
    return bad;
  *pCtx = stream->context->handle;
  if (pGreenCtx != nullptr) *pGreenCtx = nullptr;
  return CUDA_SUCCESS;
}

SLUICE_API cuStreamGetDevice(CUstream hStream, CUdevice* device) {
  Stream* stream = nullptr;
  if (const CUresult bad = enter_query(wire::Fn::cuStreamGetDevice, hStream, device, &stream))
    return bad;
  *device = stream->context->device;
  return CUDA_SUCCESS;
}

SLUICE_API cuStreamAddCallback(CUstream hStream, CUstreamCallback callback, void* userData,
                               unsigned int flags) {
  if (const CUresult refused = enter(wire::Fn::cuStreamAddCallback)) return refused;
  if (callback == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  Stream* stream = nullptr;
  if (const CUresult bad = find_stream(hStream, &stream)) return bad;
  // Callbacks cannot be captured (cuLaunchHostFunc can).
  if (const CUresult bad = session().captures().refuse_wait(*stream)) return bad;
  if (const CUresult bad = use_stream(hStream, &stream)) return bad;
  return session().host_functions().launch(
      {.run = nullptr, .callback = callback, .stream = hStream, .data = userData}, *stream,
      current_context_id());
}

SLUICE_API cuStreamWaitEvent(CUstream hStream, CUevent hEvent, unsigned int Flags) {
  if (const CUresult refused = enter(wire::Fn::cuStreamWaitEvent)) return refused;
  if ((Flags & ~static_cast<unsigned>(CU_EVENT_WAIT_EXTERNAL)) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  Stream* stream = nullptr;
  auto* event = object_of<Event>(hEvent);
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (const CUresult bad = use_stream_for_event(hStream, &stream)) return bad;
  bool joins = false;
  bool is_nothing = false;
  wire::capture_join join{};
  if (const CUresult bad =
          session().captures().wait(*stream, *event, &joins, &join.origin, &is_nothing))
    return bad;
  if (is_nothing) return CUDA_SUCCESS;
  if (stream->is_capturing.load() && Flags != 0) return unsupported(wire::Fn::cuStreamWaitEvent);
  join.stream = stream->id;
  if (joins) {
    if (const CUresult failed = post(join)) return failed;
  }
  join_host_functions(*stream, *event);
  wire::cuStreamWaitEvent args{};
  args.hStream = stream->id;
  args.hEvent = event->id;
  args.Flags = Flags;
  return post(args);
}
