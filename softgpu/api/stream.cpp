// Streams and host functions in them.
#include "softgpu/api/strict.h"
#include "softgpu/api/work.h"

#include <algorithm>

namespace sluice::softgpu {

CUresult run(const HostWork& work) {
  const InsideHostFunction inside;
  work.function(work.data);
  return CUDA_SUCCESS;
}

}  // namespace sluice::softgpu

using namespace sluice::softgpu;

SOFTGPU_API cuStreamCreateWithPriority(CUstream* out, unsigned int flags, int priority) {
  if (out == nullptr || (flags & ~static_cast<unsigned>(CU_STREAM_NON_BLOCKING)) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Context> context;
  SOFTGPU_CHECK(current(&context));
  auto stream = make_stream(context, flags, priority);
  {
    const std::lock_guard lock(context->mutex);
    context->streams.push_back(stream);
  }
  *out = state().streams.add(std::move(stream));
  return CUDA_SUCCESS;
}

SOFTGPU_API cuStreamCreate(CUstream* out, unsigned int flags) {
  return cuStreamCreateWithPriority(out, flags, 0);
}

SOFTGPU_API cuStreamDestroy_v2(CUstream handle) {
  SOFTGPU_CHECK(initialised());
  if (const auto known = state().streams.find(handle))
    SOFTGPU_CHECK(check_owner(known->context.get()));
  const auto stream = state().streams.remove(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  // Its pending work goes on; whoever orders by it (legacy stream, context) must still see it.
  const std::lock_guard lock(stream->context->mutex);
  leave_capture(stream);
  if (stream->last != nullptr && stream->context->legacy != nullptr) {
    auto tail = std::make_shared<Operation>();
    // Kept alive until its last operation is done.
    tail->work = [ghost = stream] { return CUDA_SUCCESS; };
    const OperationPtr last = stream->last;
    stream->last = tail;
    schedule(tail, {last});
  }
  return CUDA_SUCCESS;
}

SOFTGPU_API cuStreamSynchronize(CUstream handle) {
  std::shared_ptr<Stream> stream;
  SOFTGPU_CHECK(stream_of(handle, &stream));
  SOFTGPU_CHECK(refuse_in_capture(stream));
  return wait_all(*stream->context, pending(stream));
}

SOFTGPU_API cuStreamQuery(CUstream handle) {
  std::shared_ptr<Stream> stream;
  SOFTGPU_CHECK(stream_of(handle, &stream));
  SOFTGPU_CHECK(refuse_in_capture(stream));
  for (const OperationPtr& operation : pending(stream))
    if (!is_done(operation)) return CUDA_ERROR_NOT_READY;
  return stream->context->sticky;
}

namespace {

/// The wait inside a capture: an edge of its graph. Called with the context's mutex held.
CUresult wait_for_captured(const std::shared_ptr<Stream>& stream,
                           const std::shared_ptr<Capture>& captured,
                           const std::vector<Node*>& tail) {
  if (captured->is_ended) return CUDA_ERROR_CAPTURED_EVENT;
  if (stream->context->legacy == stream) {
    captured->is_invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  }
  if (stream->capture == nullptr) {  // the stream joins the capture
    stream->capture = captured;
    captured->members.push_back(stream);
  }
  if (stream->capture != captured) {
    stream->capture->is_invalid = captured->is_invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_MERGE;
  }
  for (Node* node : tail)
    if (std::find(stream->tail.begin(), stream->tail.end(), node) == stream->tail.end())
      stream->tail.push_back(node);
  return CUDA_SUCCESS;
}

}  // namespace

SOFTGPU_API cuStreamWaitEvent(CUstream handle, CUevent event_handle, unsigned int flags) {
  if ((flags & ~static_cast<unsigned>(CU_EVENT_WAIT_EXTERNAL)) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Stream> stream;
  SOFTGPU_CHECK(stream_of(handle, &stream));
  const auto event = state().events.find(event_handle);
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (flags == CU_EVENT_WAIT_EXTERNAL)
    return is_capturing(stream) ? submit_work(stream, EventWaitWork{event})
                                : CUDA_ERROR_INVALID_VALUE;
  OperationPtr recorded;
  std::shared_ptr<Capture> captured;
  std::vector<Node*> tail;
  {
    const std::lock_guard lock(event->context->mutex);
    recorded = event->recorded;
    captured = event->captured;
    tail = event->tail;
  }
  const std::lock_guard lock(stream->context->mutex);
  if (captured != nullptr) {
    // A capture's streams are guarded by one mutex.
    if (event->context != stream->context) return CUDA_ERROR_NOT_SUPPORTED;
    return wait_for_captured(stream, captured, tail);
  }
  if (stream->capture != nullptr) {
    stream->capture->is_invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
  }
  if (recorded == nullptr) return CUDA_SUCCESS;
  auto gate = std::make_shared<Operation>();
  gate->work = [] { return CUDA_SUCCESS; };
  const std::vector<OperationPtr> before = {stream->last, recorded};
  stream->last = gate;
  schedule(gate, before);
  return CUDA_SUCCESS;
}

SOFTGPU_API cuStreamGetFlags(CUstream handle, unsigned int* flags) {
  if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Stream> stream;
  SOFTGPU_CHECK(stream_of(handle, &stream));
  *flags = stream->flags;
  return CUDA_SUCCESS;
}

SOFTGPU_API cuStreamGetPriority(CUstream handle, int* priority) {
  if (priority == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Stream> stream;
  SOFTGPU_CHECK(stream_of(handle, &stream));
  *priority = stream->priority;
  return CUDA_SUCCESS;
}

SOFTGPU_API cuStreamGetCtx(CUstream handle, CUcontext* context) {
  if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Stream> stream;
  SOFTGPU_CHECK(stream_of(handle, &stream));
  *context = reinterpret_cast<CUcontext>(stream->context.get());
  return CUDA_SUCCESS;
}

SOFTGPU_API cuStreamGetId(CUstream handle, unsigned long long* id) {
  if (id == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Stream> stream;
  SOFTGPU_CHECK(stream_of(handle, &stream));
  *id = stream->id;
  return CUDA_SUCCESS;
}

SOFTGPU_API cuLaunchHostFunc(CUstream handle, CUhostFn function, void* data) {
  if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Stream> stream;
  SOFTGPU_CHECK(stream_of(handle, &stream));
  return submit_work(stream, HostWork{function, data});
}

SOFTGPU_API cuStreamAddCallback(CUstream handle, CUstreamCallback callback, void* data,
                                unsigned int flags) {
  if (callback == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Stream> stream;
  SOFTGPU_CHECK(stream_of(handle, &stream));
  SOFTGPU_CHECK(refuse_in_capture(stream));
  return submit(
      stream,
      [context = stream->context, handle, callback, data] {
        const InsideHostFunction inside;
        callback(handle, context->sticky, data);
        return CUDA_SUCCESS;
      },
      nullptr, true);
}

SOFTGPU_API cuStreamGetDevice(CUstream handle, CUdevice* device) {
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Stream> stream;
  SOFTGPU_CHECK(stream_of(handle, &stream));
  *device = ordinal_of(stream->context->device);
  return CUDA_SUCCESS;
}
