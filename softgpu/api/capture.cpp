// Stream capture: which streams take part, what spoils it, and the graph that comes out.
#include "softgpu/api/graph.h"

#include <algorithm>
#include <set>

namespace sluice::softgpu {
namespace {

thread_local CUstreamCaptureMode t_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

/// Captures under way in this process, for calls that are unsafe while there is any.
struct Active {
  std::mutex mutex;
  std::vector<std::weak_ptr<Capture>> captures;
};
Active& active() {
  static auto* instance = new Active;
  return *instance;
}

/// Everything that `ends` come behind, and they themselves.
std::set<const Node*> ancestors(const std::vector<Node*>& ends) {
  std::set<const Node*> out;
  std::vector<const Node*> open(ends.begin(), ends.end());
  while (!open.empty()) {
    const Node* node = open.back();
    open.pop_back();
    if (!out.insert(node).second) continue;
    open.insert(open.end(), node->before.begin(), node->before.end());
  }
  return out;
}

bool is_joined(const Capture& capture, const Stream& origin) {
  const std::lock_guard lock(graph_mutex());
  const auto known = ancestors(origin.tail);
  const auto all_known = [&](const std::vector<Node*>& tail) {
    return std::all_of(tail.begin(), tail.end(), [&](Node* n) { return known.contains(n); });
  };
  if (!all_known(capture.abandoned)) return false;
  return std::all_of(capture.members.begin(), capture.members.end(), [&](const auto& weak) {
    const auto member = weak.lock();
    return member == nullptr || all_known(member->tail);
  });
}

void end(Capture& capture) {
  capture.is_ended = true;
  capture.graph->is_capturing = false;
  for (const auto& weak : capture.members)
    if (const auto member = weak.lock()) {
      member->capture = nullptr;
      member->tail.clear();
    }
  const std::lock_guard lock(active().mutex);
  std::erase_if(active().captures, [&](const auto& weak) {
    const auto other = weak.lock();
    return other == nullptr || other.get() == &capture;
  });
}

CUresult begin(CUstream handle, CUstreamCaptureMode mode, const std::shared_ptr<Graph>& graph,
               std::vector<Node*> tail, bool is_own_graph) {
  if (static_cast<int>(mode) < 0 || mode > CU_STREAM_CAPTURE_MODE_RELAXED)
    return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Stream> stream;
  SOFTGPU_CHECK(stream_of(handle, &stream));
  if (stream == stream->context->legacy) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  const std::lock_guard lock(stream->context->mutex);
  if (stream->capture != nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  auto capture = std::make_shared<Capture>();
  capture->graph = graph;
  capture->is_own_graph = is_own_graph;
  capture->origin = stream.get();
  capture->mode = mode;
  capture->id = state().next_id++;
  capture->thread = thread_number();
  capture->members.push_back(stream);
  graph->is_capturing = true;
  state().graphs.add(graph);
  stream->tail = std::move(tail);
  stream->capture = capture;
  const std::lock_guard active_lock(active().mutex);
  active().captures.push_back(capture);
  return CUDA_SUCCESS;
}

CUresult find_tail(const Graph& graph, const CUgraphNode* nodes, std::size_t count,
                   std::vector<Node*>* out) {
  if (count > 0 && nodes == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (std::size_t i = 0; i < count; ++i) {
    Node* node = nullptr;
    SOFTGPU_CHECK(find_node(nodes[i], &node));
    if (node->graph != &graph) return CUDA_ERROR_INVALID_VALUE;
    out->push_back(node);
  }
  return CUDA_SUCCESS;
}

struct Info {
  CUstreamCaptureStatus* status;
  cuuint64_t* id;
  CUgraph* graph;
  const CUgraphNode** nodes;
  std::size_t* count;
};

CUresult capture_info(CUstream handle, const Info& out) {
  if (out.status == nullptr) return CUDA_ERROR_INVALID_VALUE;
  SOFTGPU_CHECK(cuStreamIsCapturing(handle, out.status));
  if (*out.status != CU_STREAM_CAPTURE_STATUS_ACTIVE) return CUDA_SUCCESS;
  std::shared_ptr<Stream> stream;
  SOFTGPU_CHECK(stream_of(handle, &stream));
  const std::lock_guard lock(stream->context->mutex);
  if (stream->capture == nullptr) return CUDA_SUCCESS;
  if (out.id != nullptr) *out.id = stream->capture->id;
  if (out.graph != nullptr) *out.graph = reinterpret_cast<CUgraph>(stream->capture->graph.get());
  // Valid until the next call on the stream, as documented.
  if (out.nodes != nullptr) *out.nodes = reinterpret_cast<CUgraphNode*>(stream->tail.data());
  if (out.count != nullptr) *out.count = stream->tail.size();
  return CUDA_SUCCESS;
}

}  // namespace

CUresult refuse_unsafe_call() {
  if (t_mode == CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_SUCCESS;
  CUresult result = CUDA_SUCCESS;
  const std::lock_guard lock(active().mutex);
  for (const auto& weak : active().captures) {
    const auto capture = weak.lock();
    if (capture == nullptr || capture->mode == CU_STREAM_CAPTURE_MODE_RELAXED) continue;
    const bool is_own = capture->thread == thread_number();
    const bool is_global =
        t_mode == CU_STREAM_CAPTURE_MODE_GLOBAL && capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
    if (!is_own && !is_global) continue;
    capture->is_invalid = true;
    result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  return result;
}

void leave_capture(const std::shared_ptr<Stream>& stream) {
  const auto capture = stream->capture;
  if (capture == nullptr) return;
  if (capture->origin == stream.get()) {
    capture->is_invalid = true;  // nobody can end it any more
    end(*capture);
    if (capture->is_own_graph) state().graphs.remove(capture->graph.get());
    return;
  }
  capture->abandoned.insert(capture->abandoned.end(), stream->tail.begin(), stream->tail.end());
  stream->capture = nullptr;
  stream->tail.clear();
}

}  // namespace sluice::softgpu

using namespace sluice::softgpu;

SOFTGPU_API cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode) {
  SOFTGPU_CHECK(initialised());
  return begin(stream, mode, std::make_shared<Graph>(), {}, true);
}
#undef cuStreamBeginCapture
SOFTGPU_API cuStreamBeginCapture(CUstream stream) {
  return cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

SOFTGPU_API cuStreamBeginCaptureToGraph(CUstream stream, CUgraph handle, const CUgraphNode* nodes,
                                        const CUgraphEdgeData* edges, size_t count,
                                        CUstreamCaptureMode mode) {
  if (edges != nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  std::shared_ptr<Graph> graph;
  SOFTGPU_CHECK(find_graph(handle, &graph));
  if (graph->is_capturing) return CUDA_ERROR_INVALID_VALUE;
  std::vector<Node*> tail;
  SOFTGPU_CHECK(find_tail(*graph, nodes, count, &tail));
  return begin(stream, mode, graph, std::move(tail), false);
}

SOFTGPU_API cuStreamEndCapture(CUstream handle, CUgraph* out) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = nullptr;
  std::shared_ptr<Stream> stream;
  SOFTGPU_CHECK(stream_of(handle, &stream));
  const std::lock_guard lock(stream->context->mutex);
  const auto capture = stream->capture;
  if (capture == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  if (capture->origin != stream.get()) return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && capture->thread != thread_number())
    return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  const CUresult result = capture->is_invalid             ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
                          : !is_joined(*capture, *stream) ? CUDA_ERROR_STREAM_CAPTURE_UNJOINED
                                                          : CUDA_SUCCESS;
  end(*capture);
  const auto graph = reinterpret_cast<CUgraph>(capture->graph.get());
  if (result == CUDA_SUCCESS)
    *out = graph;
  else if (capture->is_own_graph)
    state().graphs.remove(graph);
  return result;
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
  if (mode == nullptr || static_cast<int>(*mode) < 0 || *mode > CU_STREAM_CAPTURE_MODE_RELAXED)
    return CUDA_ERROR_INVALID_VALUE;
  std::swap(*mode, t_mode);
  return CUDA_SUCCESS;
}

SOFTGPU_API cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus* status,
                                      cuuint64_t* id, CUgraph* graph, const CUgraphNode** nodes,
                                      size_t* count) {
  return capture_info(stream, {status, id, graph, nodes, count});
}
SOFTGPU_API cuStreamGetCaptureInfo_v3(CUstream stream, CUstreamCaptureStatus* status,
                                      cuuint64_t* id, CUgraph* graph, const CUgraphNode** nodes,
                                      const CUgraphEdgeData** edges, size_t* count) {
  if (edges != nullptr) *edges = nullptr;  // all edges are plain
  return capture_info(stream, {status, id, graph, nodes, count});
}
#undef cuStreamGetCaptureInfo
SOFTGPU_API cuStreamGetCaptureInfo(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id) {
  return capture_info(stream, {status, id, nullptr, nullptr, nullptr});
}

SOFTGPU_API cuStreamUpdateCaptureDependencies_v2(CUstream handle, CUgraphNode* nodes,
                                                 const CUgraphEdgeData* edges, size_t count,
                                                 unsigned int flags) {
  if (flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES) return CUDA_ERROR_INVALID_VALUE;
  if (edges != nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  std::shared_ptr<Stream> stream;
  SOFTGPU_CHECK(stream_of(handle, &stream));
  const std::lock_guard lock(stream->context->mutex);
  if (stream->capture == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  std::vector<Node*> tail;
  SOFTGPU_CHECK(find_tail(*stream->capture->graph, nodes, count, &tail));
  if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES) stream->tail.clear();
  for (Node* node : tail)
    if (std::find(stream->tail.begin(), stream->tail.end(), node) == stream->tail.end())
      stream->tail.push_back(node);
  return CUDA_SUCCESS;
}
#undef cuStreamUpdateCaptureDependencies
SOFTGPU_API cuStreamUpdateCaptureDependencies(CUstream stream, CUgraphNode* nodes, size_t count,
                                              unsigned int flags) {
  return cuStreamUpdateCaptureDependencies_v2(stream, nodes, nullptr, count, flags);
}
