// What a graph does with its client: copies between the device and the client's memory, and host
// functions of the client. In the graph's nodes the client's memory is represented by pinned twins
// here: they get the client's bytes before a launch and their bytes go back in stream order behind
// it, or before a host function that may look at them. Launches of graphs that do any of this take
// turns within a context, because their twins may be the same.
#pragma once

#include "server/worker/worker.h"

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace sluice::server {

/// Confined to the decode thread, but for what `mutex` guards and the functions named so.
class Worker::Graphs {
 public:
  /// Pinned memory of one session's twins.
  static constexpr std::uint64_t kTwinBytesMax = std::uint64_t{1} << 30;
  /// Uploads that wait for a launch whose turn has not come.
  static constexpr std::uint64_t kPendingBytesMax = 2 * wire::kCopyWindowBytes;

  struct Part {
    std::byte* memory = nullptr;
    std::uint64_t bytes = 0;
  };
  struct Plan {
    std::vector<Part> downloads;
    std::unordered_map<std::uint64_t, std::vector<std::size_t>>
        before_host;                 ///< node -> downloads that precede it
    std::vector<std::size_t> final;  ///< those that precede no host function
  };
  struct Upload {
    std::byte* to = nullptr;
    std::vector<std::byte> data;
  };
  struct Launch {
    Worker* worker = nullptr;
    CUcontext context = nullptr;
    std::shared_ptr<const Plan> plan;
    std::vector<std::uint64_t> transfers;  ///< by download
    wire::RecordHeader request{};
    std::uint64_t token = 0;
    std::vector<Upload> uploads;
    bool is_over = false;  ///< guarded by mutex
  };
  using LaunchRef = std::shared_ptr<Launch>;

  explicit Graphs(Worker& worker) : worker_(worker) {}

  CUresult create_twin(std::uint64_t id, std::uint64_t bytes);
  void free_twin(std::uint64_t id);
  /// Null if there is no such twin.
  CUcontext context_of(std::uint64_t id);
  /// Null if the stretch lies in no twin.
  std::byte* find_twin(std::uint64_t id, std::uint64_t offset, std::uint64_t bytes);

  CUresult capture_host_function(CUstream stream, std::uint64_t node);
  CUresult set_plan(std::uint64_t exec, Bytes downloads, Bytes hosts);
  void forget_exec(std::uint64_t exec) { plans_.erase(exec); }
  /// Of the following launch, or (`is_inside`) of the host function that runs.
  CUresult upload(std::byte* to, Bytes data, bool is_inside);
  CUresult launch(std::uint64_t exec_id, CUgraphExec exec, CUstream stream,
                  const LaunchRef& launch);
  /// The context is gone, and the twins with it; any thread.
  void forget(CUcontext context);
  /// Any thread.
  [[nodiscard]] std::uint64_t pinned_bytes() const { return twin_bytes_; }

 private:
  struct Twin {
    std::byte* memory = nullptr;
    std::uint64_t bytes = 0;
    CUcontext context = nullptr;
  };
  struct HostNode {
    Worker* worker = nullptr;
    CUcontext context = nullptr;
    std::uint64_t node = 0;
  };
  static void run_host_node(void* host_node);
  static void run_uploads(void* launch);
  static void run_end(void* launch);

  [[nodiscard]] bool is_idle(CUcontext context);
  CUresult await_turn(CUstream stream, Launch& launch);
  CUresult record_end(CUcontext context, CUstream stream);
  /// Completer's thread.
  void send(const Launch& launch, const std::vector<std::size_t>& downloads);
  void finish(const LaunchRef& launch, CUresult result);

  Worker& worker_;
  std::uint64_t pending_bytes_ = 0;
  std::vector<Upload> pending_;  ///< for the next launch
  std::unordered_map<std::uint64_t, std::shared_ptr<const Plan>> plans_;
  std::unordered_map<std::uint64_t, std::unique_ptr<HostNode>> host_nodes_;

  std::mutex mutex_;  ///< guards what follows
  std::unordered_map<std::uint64_t, Twin> twins_;
  std::atomic<std::uint64_t> twin_bytes_{0};  ///< read without the mutex
  std::map<CUcontext, std::deque<LaunchRef>> running_;
  std::map<CUcontext, CUevent> last_end_;  ///< behind the latest launch
  std::uint64_t last_run_ = 0;
};

}  // namespace sluice::server
