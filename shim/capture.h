// Stream capture as the application sees it. The capture itself happens on the worker's stream; the
// mirror here decides, at the call, what is legal while streams capture (CUDA programming guide,
// "Prohibited and unhandled operations"), and follows nodes and their dependencies, by which forks
// are joined.
#pragma once

#include "shim/graphs.h"
#include "shim/objects.h"

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace sluice::shim {

using NodeSet = std::vector<std::uint32_t>;

/// One capture sequence. Guarded by the mutex of Captures.
struct Capture {
  std::uint64_t id = 0;
  Stream* origin = nullptr;
  CUstreamCaptureMode mode{};
  std::thread::id thread;
  bool is_invalid = false;
  bool is_over = false;
  std::shared_ptr<Graph> graph = std::make_shared<Graph>();
  std::map<Stream*, NodeSet> members;  ///< what the next command of each stream depends on
};

/// Thread-safe; one for the session.
class Captures {
 public:
  CUresult begin(Stream& stream, CUstreamCaptureMode mode);
  /// The stream leaves capture mode in any case; `out` is set if there is a graph to be had.
  CUresult end(Stream& stream, std::shared_ptr<Graph>* out);
  CUstreamCaptureStatus status(const Stream& stream, std::uint64_t* id);

  /// Whether a command may be given to the stream; adds its node if the stream captures.
  CUresult add_node(Stream& stream) {
    return is_involved(stream) ? add_node_slowly(stream) : CUDA_SUCCESS;
  }
  /// The same for what makes no node.
  CUresult check(Stream& stream) {
    return is_involved(stream) ? check_slowly(stream) : CUDA_SUCCESS;
  }
  /// The command that was just added to the capturing stream is this copy or function.
  void set_copy(Stream& stream, GraphNode::Kind kind, const HostCopy& copy);
  void set_function(Stream& stream, std::shared_ptr<GraphFunction> function);
  /// A launch of a graph inside a capture.
  void add_child(Stream& stream, const GraphExec& child);
  std::vector<GraphNode> nodes(const Stream& stream);

  /// Waiting for or asking about a stream, or a whole context: never while it captures.
  CUresult refuse_wait(Stream& stream);
  CUresult refuse_wait(Context& context);
  /// Calls that may wait for the device implicitly: what the modes of captures and threads say.
  CUresult refuse_unsafe(CUstreamCaptureMode thread_mode);

  /// True if the record is part of a capture: nothing will announce that it has happened.
  bool record(Event& event, const Stream& stream);
  /// The stream is about to wait for the event. *joins: it enters the capture that began in
  /// *origin. *is_nothing: there is nothing to wait for.
  CUresult wait(Stream& stream, Event& event, bool* joins, std::uint64_t* origin, bool* is_nothing);

  /// The stream ends: its capture is spoilt. If it began there it ends with the stream: its id.
  std::uint64_t forget(Stream& stream);

 private:
  static bool is_involved(const Stream& stream) {
    return stream.is_capturing.load(std::memory_order_acquire) ||
           (stream.id == 0 && stream.context->blocking_captures.load() != 0);
  }
  CUresult add_node_slowly(Stream& stream);
  CUresult check_slowly(Stream& stream);
  CUresult check_locked(Stream& stream);
  Capture* capture_of(const Stream& stream);
  void enter(const std::shared_ptr<Capture>& capture, Stream& stream, NodeSet after);
  void leave(Stream& stream);
  void close(const std::shared_ptr<Capture>& capture);

  std::mutex mutex_;
  std::atomic<int> count_{0};  ///< captures that were not begun in relaxed mode
  std::uint64_t last_id_ = 0;
  std::map<const Stream*, std::shared_ptr<Capture>> by_stream_;
  std::map<std::uint64_t, std::shared_ptr<Capture>> captures_;
};

}  // namespace sluice::shim
