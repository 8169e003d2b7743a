// Events. A record is an operation in the stream; what it waits for is what the event stands for.
#include "softgpu/api/work.h"

using namespace sluice::softgpu;

SOFTGPU_API cuEventCreate(CUevent* out, unsigned int flags) {
  constexpr unsigned kKnown =
      CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
  if (out == nullptr || (flags & ~kKnown) != 0) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Context> context;
  SOFTGPU_CHECK(current(&context));
  auto event = std::make_shared<Event>();
  event->context = context;
  event->flags = flags;
  *out = state().events.add(std::move(event));
  return CUDA_SUCCESS;
}

SOFTGPU_API cuEventDestroy_v2(CUevent handle) {
  SOFTGPU_CHECK(initialised());
  SOFTGPU_CHECK(check_owner(nullptr));
  return state().events.remove(handle) != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

SOFTGPU_API cuEventRecordWithFlags(CUevent handle, CUstream stream_handle, unsigned int flags) {
  if ((flags & ~static_cast<unsigned>(CU_EVENT_RECORD_EXTERNAL)) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  SOFTGPU_CHECK(initialised());
  const auto event = state().events.find(handle);
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  SOFTGPU_CHECK(check_owner(event->context.get()));
  std::shared_ptr<Stream> stream;
  SOFTGPU_CHECK(stream_of(stream_handle, &stream));
  if (event->context != stream->context) return CUDA_ERROR_INVALID_HANDLE;
  if (flags == CU_EVENT_RECORD_EXTERNAL)
    return is_capturing(stream) ? submit_work(stream, EventRecordWork{event})
                                : CUDA_ERROR_INVALID_VALUE;
  {
    const std::lock_guard lock(event->context->mutex);
    if (stream->capture != nullptr && stream->capture->is_invalid)
      return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    event->captured = stream->capture;
    event->tail = stream->tail;
    if (stream->capture != nullptr) return CUDA_SUCCESS;
  }
  OperationPtr operation;
  SOFTGPU_CHECK(submit(
      stream, [] { return CUDA_SUCCESS; }, &operation, true));
  const std::lock_guard lock(event->context->mutex);
  event->recorded = operation;
  return CUDA_SUCCESS;
}

SOFTGPU_API cuEventRecord(CUevent event, CUstream stream) {
  return cuEventRecordWithFlags(event, stream, 0);
}

namespace {
CUresult recorded_of(CUevent handle, std::shared_ptr<Event>* event, OperationPtr* operation) {
  SOFTGPU_CHECK(initialised());
  SOFTGPU_CHECK(check_owner(nullptr));  // events of any context can be asked
  *event = state().events.find(handle);
  if (*event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const std::lock_guard lock((*event)->context->mutex);
  if ((*event)->captured != nullptr) return CUDA_ERROR_CAPTURED_EVENT;
  *operation = (*event)->recorded;
  return CUDA_SUCCESS;
}
}  // namespace

SOFTGPU_API cuEventQuery(CUevent handle) {
  std::shared_ptr<Event> event;
  OperationPtr operation;
  SOFTGPU_CHECK(recorded_of(handle, &event, &operation));
  SOFTGPU_CHECK(refuse_unsafe_call());
  return is_done(operation) ? event->context->sticky.load() : CUDA_ERROR_NOT_READY;
}

SOFTGPU_API cuEventSynchronize(CUevent handle) {
  std::shared_ptr<Event> event;
  OperationPtr operation;
  SOFTGPU_CHECK(recorded_of(handle, &event, &operation));
  SOFTGPU_CHECK(refuse_unsafe_call());
  return wait_all(*event->context, {operation});
}

SOFTGPU_API cuEventElapsedTime_v2(float* ms, CUevent start_handle, CUevent end_handle) {
  if (ms == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Event> start, end;
  OperationPtr first, last;
  SOFTGPU_CHECK(recorded_of(start_handle, &start, &first));
  SOFTGPU_CHECK(recorded_of(end_handle, &end, &last));
  if (((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING) != 0 || first == nullptr ||
      last == nullptr)
    return CUDA_ERROR_INVALID_HANDLE;
  if (!is_done(first) || !is_done(last)) return CUDA_ERROR_NOT_READY;
  *ms = static_cast<float>(static_cast<double>(last->finished_ns - first->finished_ns) * 1e-6);
  return start->context->sticky;
}

#undef cuEventElapsedTime
SOFTGPU_API cuEventElapsedTime(float* ms, CUevent start, CUevent end) {
  return cuEventElapsedTime_v2(ms, start, end);
}
