// Stream capture and the graphs it makes: the work of a capture is recorded in the order of the calls, which satisfies every
// dependency, and replayed in that order. Graphs built node by node are not supported yet.
#include "softgpu/api/state.h"

using namespace sluice::softgpu;

namespace {
thread_local CUstreamCaptureMode t_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
}

SOFTGPU_API cuStreamBeginCapture_v2(CUstream handle, CUstreamCaptureMode mode) {
  std::shared_ptr<Stream> stream;
  SOFTGPU_CHECK(stream_of(handle, &stream));
  if (stream == stream->context->legacy) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  const std::lock_guard lock(stream->context->mutex);
  if (stream->capture != nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  stream->capture = std::make_shared<Capture>();
  stream->capture->origin = stream.get();
  stream->capture->mode = mode;
  stream->capture->id = state().next_id++;
  return CUDA_SUCCESS;
}

SOFTGPU_API cuStreamEndCapture(CUstream handle, CUgraph* out) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = nullptr;
  std::shared_ptr<Stream> stream;
  SOFTGPU_CHECK(stream_of(handle, &stream));
  Context& context = *stream->context;
  const std::lock_guard lock(context.mutex);
  const auto capture = stream->capture;
  if (capture == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  if (capture->origin != stream.get()) return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  for (const auto& weak : context.streams)
    if (const auto other = weak.lock(); other != nullptr && other->capture == capture) other->capture = nullptr;
  stream->capture = nullptr;
  if (capture->is_invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  *out = state().graphs.add(capture->graph);
  return CUDA_SUCCESS;
}

SOFTGPU_API cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus* status) {
  if (status == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Stream> stream;
  SOFTGPU_CHECK(stream_of(handle, &stream));
  const std::lock_guard lock(stream->context->mutex);
  *status = stream->capture == nullptr     ? CU_STREAM_CAPTURE_STATUS_NONE
            : stream->capture->is_invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                          : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  return CUDA_SUCCESS;
}

SOFTGPU_API cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  if (mode == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::swap(*mode, t_mode);
  return CUDA_SUCCESS;
}

SOFTGPU_API cuGraphInstantiateWithFlags(CUgraphExec* out, CUgraph handle, unsigned long long) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto graph = state().graphs.find(handle);
  if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = state().executables.add(std::make_shared<Graph>(*graph));
  return CUDA_SUCCESS;
}

SOFTGPU_API cuGraphLaunch(CUgraphExec handle, CUstream stream_handle) {
  const auto graph = state().executables.find(handle);
  if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Stream> stream;
  SOFTGPU_CHECK(stream_of(stream_handle, &stream));
  return submit(stream, [graph]() -> CUresult {
    for (const auto& node : graph->nodes)
      if (const CUresult result = node(); result != CUDA_SUCCESS) return result;
    return CUDA_SUCCESS;
  });
}

SOFTGPU_API cuGraphUpload(CUgraphExec handle, CUstream) { return state().executables.find(handle) != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE; }
SOFTGPU_API cuGraphDestroy(CUgraph handle) { return state().graphs.remove(handle) != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE; }
SOFTGPU_API cuGraphExecDestroy(CUgraphExec handle) { return state().executables.remove(handle) != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE; }
SOFTGPU_API cuGraphGetNodes(CUgraph handle, CUgraphNode* nodes, size_t* count) {
  const auto graph = state().graphs.find(handle);
  if (graph == nullptr || count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (nodes != nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  *count = graph->nodes.size();
  return CUDA_SUCCESS;
}
