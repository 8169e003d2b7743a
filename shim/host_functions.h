// Functions of the application that run in stream order (cuLaunchHostFunc, cuStreamAddCallback):
// the worker's stream waits in a host function of its own until the application's has run here.
// They run on a thread of their own, because they may take any time and the pipeline's service
// thread must not.
#pragma once

#include "shim/futex.h"
#include "shim/pipeline.h"

#include <cuda.h>
#include <pthread.h>

#include <deque>
#include <mutex>
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
  };
  CUresult launch(const Function& function, std::uint64_t stream, std::uint32_t context);
  Status on_run(const wire::RecordHeader& header, Bytes body);

 private:
  struct Due {
    std::uint64_t token = 0;
    Function function;
    CUresult status = CUDA_SUCCESS;
  };
  bool start();
  void serve();
  void run(const Due& due);

  Pipeline& pipeline_;
  std::mutex mutex_;
  std::unordered_map<std::uint64_t, Function> waiting_;
  std::deque<Due> due_;
  std::uint64_t last_token_ = 0;
  bool has_thread_ = false;
  std::atomic<bool> stops_{false};
  WakeWord word_;
  pthread_t thread_{};
};

}  // namespace sluice::shim
