// Stream capture and the graphs it makes: the work of a capture is recorded in the order of the
// calls, which satisfies every dependency, and replayed in that order. Graphs built node by node
// are not supported yet.
#include "softgpu/api/state.h"

#include <algorithm>

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
  const bool is_joined =
      std::all_of(capture->tails.begin(), capture->tails.end(),
                  [&](const auto& tail) { return stream->seen[tail.first] >= tail.second; });
  capture->is_ended = true;
  for (const auto& weak : context.streams) {
    const auto member = weak.lock();
    if (member == nullptr || member->capture != capture) continue;
    member->capture = nullptr;
    member->seen.clear();
  }
  if (capture->is_invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (!is_joined) return CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  *out = state().graphs.add(capture->graph);
  return CUDA_SUCCESS;
}

SOFTGPU_API cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus* status) {
  if (status == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Stream> stream;
  SOFTGPU_CHECK(stream_of(handle, &stream));
  const std::lock_guard lock(stream->context->mutex);
  *status = stream->capture == nullptr    ? CU_STREAM_CAPTURE_STATUS_NONE
            : stream->capture->is_invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                          : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  return CUDA_SUCCESS;
}

SOFTGPU_API cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  if (mode == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::swap(*mode, t_mode);
  return CUDA_SUCCESS;
}

SOFTGPU_API cuGraphInstantiateWithFlags(CUgraphExec* out, CUgraph handle,
                                        unsigned long long flags) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  constexpr unsigned long long kKnown = CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH |
                                        CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |
                                        CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
  if ((flags & ~kKnown) != 0) return CUDA_ERROR_NOT_SUPPORTED;  // launch from the device
  const auto graph = state().graphs.find(handle);
  if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  auto executable = std::make_shared<Graph>();
  executable->nodes = graph->nodes;
  executable->flags = flags;
  *out = state().executables.add(std::move(executable));
  return CUDA_SUCCESS;
}

SOFTGPU_API cuGraphInstantiateWithParams(CUgraphExec* out, CUgraph graph,
                                         CUDA_GRAPH_INSTANTIATE_PARAMS* params) {
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  params->hErrNode_out = nullptr;
  params->result_out = CUDA_GRAPH_INSTANTIATE_ERROR;
  SOFTGPU_CHECK(cuGraphInstantiateWithFlags(out, graph, params->flags));
  params->result_out = CUDA_GRAPH_INSTANTIATE_SUCCESS;
  return CUDA_SUCCESS;
}

namespace {
CUresult capture_info(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id) {
  if (status == nullptr) return CUDA_ERROR_INVALID_VALUE;
  SOFTGPU_CHECK(cuStreamIsCapturing(handle, status));
  std::shared_ptr<Stream> stream;
  SOFTGPU_CHECK(stream_of(handle, &stream));
  const std::lock_guard lock(stream->context->mutex);
  if (id != nullptr && stream->capture != nullptr) *id = stream->capture->id;
  return CUDA_SUCCESS;
}
}  // namespace

#undef cuStreamGetCaptureInfo
SOFTGPU_API cuStreamGetCaptureInfo(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id) {
  return capture_info(stream, status, id);
}
// The graph of a capture under way and its nodes have no handles here: only status and id can be
// told.
SOFTGPU_API cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus* status,
                                      cuuint64_t* id, CUgraph* graph, const CUgraphNode** nodes,
                                      size_t* count) {
  SOFTGPU_CHECK(capture_info(stream, status, id));
  return *status == CU_STREAM_CAPTURE_STATUS_ACTIVE &&
                 (graph != nullptr || nodes != nullptr || count != nullptr)
             ? CUDA_ERROR_NOT_SUPPORTED
             : CUDA_SUCCESS;
}
SOFTGPU_API cuStreamGetCaptureInfo_v3(CUstream stream, CUstreamCaptureStatus* status,
                                      cuuint64_t* id, CUgraph* graph, const CUgraphNode** nodes,
                                      const CUgraphEdgeData** edges, size_t* count) {
  return edges != nullptr ? CUDA_ERROR_NOT_SUPPORTED
                          : cuStreamGetCaptureInfo_v2(stream, status, id, graph, nodes, count);
}

SOFTGPU_API cuGraphLaunch(CUgraphExec handle, CUstream stream_handle) {
  const auto graph = state().executables.find(handle);
  if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Stream> stream;
  SOFTGPU_CHECK(stream_of(stream_handle, &stream));
  // Launches of one executable graph do not overlap, whatever their streams.
  return submit(stream, [graph]() -> CUresult {
    const std::lock_guard lock(graph->replay);
    for (const auto& node : graph->nodes)
      if (const CUresult result = node(); result != CUDA_SUCCESS) return result;
    return CUDA_SUCCESS;
  });
}

SOFTGPU_API cuGraphUpload(CUgraphExec handle, CUstream) {
  return state().executables.find(handle) != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
SOFTGPU_API cuGraphDestroy(CUgraph handle) {
  return state().graphs.remove(handle) != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
SOFTGPU_API cuGraphExecDestroy(CUgraphExec handle) {
  return state().executables.remove(handle) != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
SOFTGPU_API cuGraphGetNodes(CUgraph handle, CUgraphNode* nodes, size_t* count) {
  const auto graph = state().graphs.find(handle);
  if (graph == nullptr || count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (nodes != nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  *count = graph->nodes.size();
  return CUDA_SUCCESS;
}
SOFTGPU_API cuGraphExecGetFlags(CUgraphExec handle, cuuint64_t* flags) {
  const auto executable = state().executables.find(handle);
  if (flags == nullptr || executable == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *flags = executable->flags;
  return CUDA_SUCCESS;
}
