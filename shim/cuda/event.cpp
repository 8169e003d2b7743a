// Events: records are numbered here and their completions pushed, so that a query is a look at a
// number.
#include "protocol/event.h"

#include "shim/api.h"
#include "shim/host_order.h"

using namespace sluice;
using namespace sluice::shim;

namespace {

CUresult record(CUevent handle, CUstream stream_handle, unsigned flags) {
  if ((flags & ~static_cast<unsigned>(CU_EVENT_RECORD_EXTERNAL)) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  auto* event = object_of<Event>(handle);
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  Stream* stream = nullptr;
  if (const CUresult bad = use_stream_for_event(stream_handle, &stream)) return bad;
  // "hEvent and hStream must be from the same context" (cuEventRecord).
  if (event->context != stream->context) return CUDA_ERROR_INVALID_HANDLE;
  if (stream->is_capturing.load() && flags != 0) return unsupported(thread_state().fn);
  event->is_recorded = true;
  if (session().captures().record(*event, *stream)) {
    wire::event_record args{};
    args.event = event->id;
    args.stream = stream->id;
    return post(args);  // without a number: nothing will say that it has happened
  }
  pass_on_host_functions(*stream, *event);
  return session().completions().record(*event, *stream, flags, current_context_id());
}

CUresult noted(CUresult result) {
  if (is_sticky(result) && result != kSessionLost)
    session().note_failure(result, current_context_id());
  // A record that failed is reported by this call, and not again by the next.
  const CUresult deferred = session().deferred().take();
  return result != CUDA_SUCCESS ? result : deferred;
}

}  // namespace

SLUICE_API cuEventRecord(CUevent hEvent, CUstream hStream) {
  if (const CUresult refused = enter(wire::Fn::cuEventRecord)) return refused;
  return record(hEvent, hStream, 0);
}

SLUICE_API cuEventRecordWithFlags(CUevent hEvent, CUstream hStream, unsigned int flags) {
  if (const CUresult refused = enter(wire::Fn::cuEventRecordWithFlags)) return refused;
  return record(hEvent, hStream, flags);
}

SLUICE_API cuEventQuery(CUevent hEvent) {
  if (const CUresult refused = enter_needing(wire::Fn::cuEventQuery, wire::Needs::kContext))
    return refused;
  auto* event = object_of<Event>(hEvent);
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (event->is_captured.load()) return CUDA_ERROR_CAPTURED_EVENT;
  const CUresult result = session().completions().query(*event);
  return result == CUDA_ERROR_NOT_READY ? result : noted(result);
}

SLUICE_API cuEventSynchronize(CUevent hEvent) {
  if (const CUresult refused = enter(wire::Fn::cuEventSynchronize)) return refused;
  auto* event = object_of<Event>(hEvent);
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (event->is_captured.load()) return CUDA_ERROR_CAPTURED_EVENT;
  CUresult result = CUDA_SUCCESS;
  {
    const WaitScope waiting;
    result = session().completions().synchronize(*event);
  }
  return noted(result);
}
