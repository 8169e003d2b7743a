#include "shim/capture.h"

#include <algorithm>

namespace sluice::shim {
namespace {

void add_all(NodeSet& nodes, const NodeSet& more) {
  for (const std::uint32_t node : more)
    if (std::find(nodes.begin(), nodes.end(), node) == nodes.end()) nodes.push_back(node);
}

/// Whether every fork ends in what the origin depends on.
bool is_joined(const Capture& capture) {
  const std::vector<GraphNode>& nodes = capture.graph->nodes;
  std::vector<bool> reached(nodes.size(), false);
  NodeSet next = capture.members.at(capture.origin);
  while (!next.empty()) {
    const std::uint32_t node = next.back();
    next.pop_back();
    if (reached[node]) continue;
    reached[node] = true;
    next.insert(next.end(), nodes[node].after.begin(), nodes[node].after.end());
  }
  return std::all_of(capture.members.begin(), capture.members.end(), [&](const auto& member) {
    return std::all_of(member.second.begin(), member.second.end(),
                       [&](std::uint32_t node) { return reached[node]; });
  });
}

bool is_blocking(const Stream& stream) {
  return (stream.flags & CU_STREAM_NON_BLOCKING) == 0;
}

}  // namespace

Capture* Captures::capture_of(const Stream& stream) {
  const auto at = by_stream_.find(&stream);
  return at != by_stream_.end() ? at->second.get() : nullptr;
}

void Captures::enter(const std::shared_ptr<Capture>& capture, Stream& stream, NodeSet after) {
  capture->members[&stream] = std::move(after);
  by_stream_[&stream] = capture;
  if (is_blocking(stream)) stream.context->blocking_captures.fetch_add(1);
  stream.is_capturing.store(true, std::memory_order_release);
}

void Captures::leave(Stream& stream) {
  stream.is_capturing.store(false, std::memory_order_release);
  if (is_blocking(stream)) stream.context->blocking_captures.fetch_sub(1);
  by_stream_.erase(&stream);
}

void Captures::close(const std::shared_ptr<Capture>& capture) {
  capture->is_over = true;
  for (const auto& member : capture->members) leave(*member.first);
  if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED) count_.fetch_sub(1);
  captures_.erase(capture->id);
}

CUresult Captures::begin(Stream& stream, CUstreamCaptureMode mode) {
  std::lock_guard lock(mutex_);
  if (stream.id == 0) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (capture_of(stream) != nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  auto capture = std::make_shared<Capture>();
  capture->id = ++last_id_;
  capture->origin = &stream;
  capture->mode = mode;
  capture->thread = std::this_thread::get_id();
  captures_[capture->id] = capture;
  if (mode != CU_STREAM_CAPTURE_MODE_RELAXED) count_.fetch_add(1);
  enter(capture, stream, {});
  return CUDA_SUCCESS;
}

CUresult Captures::end(Stream& stream, std::shared_ptr<Graph>* out) {
  std::lock_guard lock(mutex_);
  const auto at = by_stream_.find(&stream);
  if (at == by_stream_.end()) return CUDA_ERROR_ILLEGAL_STATE;
  const std::shared_ptr<Capture> capture = at->second;
  if (capture->origin != &stream) return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
      capture->thread != std::this_thread::get_id())
    return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  const bool joined = is_joined(*capture);
  close(capture);
  if (capture->is_invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (!joined) return CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  *out = capture->graph;
  return CUDA_SUCCESS;
}

CUstreamCaptureStatus Captures::status(const Stream& stream, std::uint64_t* id) {
  std::lock_guard lock(mutex_);
  const Capture* capture = capture_of(stream);
  if (capture == nullptr) return CU_STREAM_CAPTURE_STATUS_NONE;
  *id = capture->id;
  return capture->is_invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                             : CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

CUresult Captures::check_locked(Stream& stream) {
  if (const Capture* capture = capture_of(stream))
    return capture->is_invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS;
  if (stream.id != 0) return CUDA_SUCCESS;
  // The legacy stream would have to wait for blocking streams, which are not there to be waited
  // for.
  bool is_any = false;
  for (const auto& [other, capture] : by_stream_) {
    if (other->context != stream.context || !is_blocking(*other)) continue;
    capture->is_invalid = true;
    is_any = true;
  }
  return is_any ? CUDA_ERROR_STREAM_CAPTURE_IMPLICIT : CUDA_SUCCESS;
}

CUresult Captures::check_slowly(Stream& stream) {
  std::lock_guard lock(mutex_);
  return check_locked(stream);
}

CUresult Captures::add_node_slowly(Stream& stream) {
  std::lock_guard lock(mutex_);
  if (const CUresult bad = check_locked(stream)) return bad;
  Capture* capture = capture_of(stream);
  if (capture == nullptr) return CUDA_SUCCESS;
  NodeSet& after = capture->members[&stream];
  std::vector<GraphNode>& nodes = capture->graph->nodes;
  nodes.emplace_back().after = std::move(after);
  after = {static_cast<std::uint32_t>(nodes.size() - 1)};
  return CUDA_SUCCESS;
}

void Captures::set_copy(Stream& stream, GraphNode::Kind kind, const HostCopy& copy) {
  std::lock_guard lock(mutex_);
  Capture* capture = capture_of(stream);
  if (capture == nullptr || capture->members[&stream].empty()) return;
  GraphNode& node = capture->graph->nodes[capture->members[&stream].back()];
  node.kind = kind;
  node.copy = copy;
}

void Captures::set_function(Stream& stream, std::shared_ptr<GraphFunction> function) {
  std::lock_guard lock(mutex_);
  Capture* capture = capture_of(stream);
  if (capture == nullptr || capture->members[&stream].empty()) return;
  GraphNode& node = capture->graph->nodes[capture->members[&stream].back()];
  node.kind = GraphNode::Kind::kHostFunction;
  node.function = std::move(function);
}

void Captures::add_child(Stream& stream, const GraphExec& child) {
  std::lock_guard lock(mutex_);
  Capture* capture = capture_of(stream);
  if (capture == nullptr) return;
  std::vector<GraphNode>& nodes = capture->graph->nodes;
  NodeSet& last = capture->members[&stream];  // the node that stands for the launch
  const auto first = static_cast<std::uint32_t>(nodes.size());
  NodeSet all;
  for (GraphNode node : child.nodes) {
    for (std::uint32_t& before : node.after) before += first;
    if (node.after.empty()) node.after = last;
    all.push_back(static_cast<std::uint32_t>(nodes.size()));
    nodes.push_back(std::move(node));
  }
  if (all.empty()) return;
  nodes.emplace_back().after = std::move(all);
  last = {static_cast<std::uint32_t>(nodes.size() - 1)};
}

std::vector<GraphNode> Captures::nodes(const Stream& stream) {
  std::lock_guard lock(mutex_);
  const Capture* capture = capture_of(stream);
  return capture != nullptr ? capture->graph->nodes : std::vector<GraphNode>{};
}

CUresult Captures::refuse_wait(Stream& stream) {
  if (!is_involved(stream)) return CUDA_SUCCESS;
  std::lock_guard lock(mutex_);
  if (Capture* capture = capture_of(stream)) {
    capture->is_invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  return check_locked(stream);
}

CUresult Captures::refuse_wait(Context& context) {
  std::lock_guard lock(mutex_);
  bool is_any = false;
  for (const auto& [stream, capture] : by_stream_) {
    if (stream->context != &context) continue;
    capture->is_invalid = true;
    is_any = true;
  }
  return is_any ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

CUresult Captures::refuse_unsafe(CUstreamCaptureMode thread_mode) {
  if (count_.load(std::memory_order_relaxed) == 0 || thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
    return CUDA_SUCCESS;
  std::lock_guard lock(mutex_);
  bool is_any = false;
  for (const auto& [id, capture] : captures_) {
    const bool is_own = capture->thread == std::this_thread::get_id();
    const bool concerns = is_own ? capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED
                                 : thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
                                       capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
    if (!concerns) continue;
    capture->is_invalid = true;
    is_any = true;
  }
  return is_any ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

bool Captures::record(Event& event, const Stream& stream) {
  if (!stream.is_capturing.load() && !event.is_captured.load()) return false;
  std::lock_guard lock(mutex_);
  const auto at = by_stream_.find(&stream);
  event.is_captured = at != by_stream_.end();
  event.capture = at != by_stream_.end() ? at->second : nullptr;
  event.capture_nodes =
      event.is_captured ? at->second->members[const_cast<Stream*>(&stream)] : NodeSet{};
  return event.is_captured;
}

CUresult Captures::wait(Stream& stream, Event& event, bool* joins, std::uint64_t* origin,
                        bool* is_nothing) {
  *joins = *is_nothing = false;
  if (!event.is_captured.load() && !is_involved(stream)) return CUDA_SUCCESS;
  std::lock_guard lock(mutex_);
  if (const CUresult bad = check_locked(stream)) return bad;
  Capture* own = capture_of(stream);
  if (event.capture == nullptr) {
    if (own == nullptr) return CUDA_SUCCESS;
    *is_nothing = !event.is_recorded.load();
    if (*is_nothing) return CUDA_SUCCESS;
    own->is_invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
  }
  const std::shared_ptr<Capture> capture = event.capture;
  if (capture->is_over) return CUDA_ERROR_CAPTURED_EVENT;
  if (stream.id == 0) {
    capture->is_invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  }
  if (own != nullptr && own != capture.get()) {
    own->is_invalid = capture->is_invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_MERGE;
  }
  if (capture->is_invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  *joins = own == nullptr;
  *origin = capture->origin->id;
  if (*joins) enter(capture, stream, {});
  add_all(capture->members[&stream], event.capture_nodes);
  return CUDA_SUCCESS;
}

std::uint64_t Captures::forget(Stream& stream) {
  if (!stream.is_capturing.load()) return 0;
  std::lock_guard lock(mutex_);
  const auto at = by_stream_.find(&stream);
  if (at == by_stream_.end()) return 0;
  const std::shared_ptr<Capture> capture = at->second;
  capture->is_invalid = true;
  if (capture->origin == &stream) {
    close(capture);
    return stream.id;
  }
  leave(stream);
  capture->members.erase(&stream);
  return 0;
}

}  // namespace sluice::shim
