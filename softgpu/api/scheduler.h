// Runs operations (kernels, copies, host functions) in the order that streams and events demand, on
// a pool of threads that grows when operations block. One for the process; every function is
// thread-safe.
#pragma once

#include <cuda.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace sluice::softgpu {

/// One operation. Shared by its stream, its events and those who wait; the last of them frees it.
struct Operation {
  std::function<CUresult()> work;
  int device = -1;  ///< it computes there; -1: it only copies, or calls the host
  std::vector<std::shared_ptr<Operation>> successors;
  int waiting_for = 0;
  bool is_done = false;
  std::int64_t finished_ns = 0;  ///< steady clock, when work() returned
};
using OperationPtr = std::shared_ptr<Operation>;

/// Starts when all of `before` (null or done ones are ignored) are done.
void schedule(const OperationPtr& operation, const std::vector<OperationPtr>& before);
[[nodiscard]] bool is_done(const OperationPtr& operation);  ///< null counts as done
void wait_for(const OperationPtr& operation);
/// False if not all are done by then.
bool wait_until(const std::vector<OperationPtr>& operations,
                std::chrono::steady_clock::time_point deadline);

}  // namespace sluice::softgpu
