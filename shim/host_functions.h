// Functions of the application that run in stream order (cuLaunchHostFunc, cuStreamAddCallback):
// the worker's stream waits in a host function of its own until the application's has run here.
// They run on a thread of their own, because they may take any time and the pipeline's service
// thread must not.
#pragma once

#include "shim/futex.h"
#include "shim/objects.h"
#include "shim/pipeline.h"

#include <cuda.h>
#include <pthread.h>

#include <deque>
#include <mutex>
#include <set>
#include <unordered_map>

namespace sluice::shim {

/// Thread-safe.
class HostFunctions {
 public:
  explicit HostFunctions(Pipeline& pipeline) : pipeline_(pipeline) {}
  ~HostFunctions();

  struct Function {
    CUhostFn run = nullptr;
    CUstreamCallback callback = nullptr;  ///< instead of `run`
    CUstream stream = nullptr;            ///< given to the callback
    void* data = nullptr;
    SharedSeq seq{};  ///< set by launch()
  };
  CUresult launch(const Function& function, Stream& stream, std::uint32_t context);
  /// A function that a graph runs, as often as it is launched. `node` in host_func_run names it.
  CUresult start_thread();
  /// The launch of a graph counts as a host function of its stream until end_launch().
  std::uint64_t begin_launch();
  void end_launch(std::uint64_t token);
  /// Launched and not yet run to their end.
  [[nodiscard]] std::size_t pending() const { return pending_count_.load(); }
  [[nodiscard]] bool is_pending(std::uint64_t token) const;
  /// Waits until the function has run; kSessionLost if it never will.
  CUresult wait(std::uint64_t token);
  Status on_run(const wire::RecordHeader& header, Bytes body);
  /// The host_func with that number failed: it never runs, but a callback still gets the error.
  void on_launch_failed(std::uint64_t seq, CUresult result);

 private:
  struct Due {
    std::uint64_t token = 0;
    std::uint64_t node = 0;  ///< 0: `function`; else the function of a graph
    Function function;
    CUresult status = CUDA_SUCCESS;
  };
  bool start();
  void serve();
  void run(const Due& due);

  Pipeline& pipeline_;
  mutable std::mutex mutex_;
  std::set<std::uint64_t> pending_;
  std::set<std::uint64_t> launches_;  ///< those of them that are launches of graphs
  std::atomic<std::size_t> pending_count_{0};
  WakeWord ran_word_;
  std::unordered_map<std::uint64_t, Function> waiting_;  ///< whose turn has not come
  std::deque<Due> due_;
  std::uint64_t last_token_ = 0;
  bool has_thread_ = false;
  std::atomic<bool> stops_{false};
  WakeWord word_;
  pthread_t thread_{};
};

}  // namespace sluice::shim
