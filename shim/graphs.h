// What the shim knows of graphs: which of their nodes copy the application's memory or call its
// functions, and what comes before them. In the worker such memory has twins, which the nodes name;
// a launch sends the application's bytes as they are then, and gets back what the graph copied to
// the host before anything announces that it has completed (server/worker/graphs.h).
#pragma once

#include "shim/host_functions.h"
#include "shim/objects.h"
#include "shim/pipeline.h"
#include "shim/transfers.h"

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace sluice::shim {

/// Memory of the application that nodes copy from or to, and its counterpart in the worker. Ends
/// there with the last graph that needs it.
struct Twin {
  std::uint64_t id = 0;
  std::byte* host = nullptr;
  std::size_t bytes = 0;
  std::uint32_t context = 0;
  Twin() = default;
  Twin(const Twin&) = delete;
  Twin& operator=(const Twin&) = delete;
  ~Twin();
};

struct HostCopy {
  std::shared_ptr<Twin> twin;
  std::size_t offset = 0, bytes = 0;
  [[nodiscard]] std::byte* host() const { return twin->host + offset; }
};

/// A host function that is a node, and the copies from the host that come behind it.
struct GraphFunction {
  std::uint64_t node = 0;
  CUhostFn run = nullptr;
  void* data = nullptr;
  std::vector<HostCopy> uploads;  ///< guarded by the mutex of Graphs
};

struct GraphNode {
  enum class Kind { kDevice, kUpload, kDownload, kHostFunction } kind = Kind::kDevice;
  std::vector<std::uint32_t> after;  ///< nodes that it depends on, all earlier
  HostCopy copy;
  std::shared_ptr<GraphFunction> function;
};

/// Nodes in an order in which they may run.
struct Graph {
  std::mutex mutex;
  std::vector<GraphNode> nodes;
};

struct GraphExec {
  std::vector<GraphNode> nodes;
  /// Read from the host at a launch / written there.
  std::vector<HostCopy> uploads, downloads;
  std::vector<std::shared_ptr<GraphFunction>> functions;
  [[nodiscard]] bool touches_client() const {
    return !uploads.empty() || !downloads.empty() || !functions.empty();
  }
};

/// Launches of graphs that touch the client. Thread-safe.
class Graphs {
 public:
  /// Uploads of launches that have not begun, for which the worker needs memory.
  static constexpr std::size_t kPendingBytesMax = 32 * 1024 * 1024;

  Graphs(Pipeline& pipeline, Transfers& transfers, HostFunctions& functions)
      : pipeline_(pipeline), transfers_(transfers), functions_(functions) {}

  /// A stretch of the application's memory in the graph that is being made; the same twin for the
  /// same memory. NOT_SUPPORTED for stretches that overlap without one containing the other.
  CUresult find_twin(const std::vector<GraphNode>& nodes, void* host, std::size_t bytes,
                     HostCopy* copy);
  void add_function(const std::shared_ptr<GraphFunction>& function);
  /// What of the nodes concerns the client, given to the worker under the exec's id.
  CUresult plan(std::uint64_t exec_id, std::vector<GraphNode> nodes, GraphExec* exec);
  CUresult launch(const std::shared_ptr<GraphExec>& owner, std::uint64_t exec_id, Stream& stream,
                  std::uint32_t context);

  /// The function that a graph runs, null if there is none.
  std::shared_ptr<GraphFunction> function(std::uint64_t node);
  /// The function has run: what it may have written goes to the twins.
  void after_function(const GraphFunction& function, std::uint64_t run);
  Status on_done(const wire::RecordHeader& header, Bytes body);
  /// Nobody needs the twin any more. It is freed by the next free_dropped(), because the thread
  /// that lets go of it may be one that must not send.
  void drop_twin(std::uint64_t id, std::uint32_t context);
  void free_dropped();
  /// The graph_launch with that number never came to run.
  void on_launch_failed(std::uint64_t seq, CUresult result);

 private:
  struct Launch {
    SharedSeq seq;
    std::vector<std::uint64_t> transfers;
    std::size_t upload_bytes = 0;
    std::shared_ptr<GraphExec> exec;  ///< its functions live until the launch has ended
  };
  CUresult send(const HostCopy& copy, std::uint64_t run, std::uint32_t context);
  void end(std::uint64_t token);

  Pipeline& pipeline_;
  Transfers& transfers_;
  HostFunctions& functions_;
  std::mutex launch_mutex_;  ///< uploads and their launch are one step
  std::mutex dropped_mutex_;
  std::vector<std::pair<std::uint64_t, std::uint32_t>> dropped_;
  std::mutex mutex_;  ///< guards what follows
  std::unordered_map<std::uint64_t, std::weak_ptr<GraphFunction>> by_node_;
  std::unordered_map<std::uint64_t, Launch> launches_;
  std::atomic<std::size_t> pending_bytes_{0};
};

}  // namespace sluice::shim
