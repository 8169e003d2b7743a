// Measures once a second, and when it is asked to, how much of each device's memory every process
// has. For drivers that do not count for their own process; on a thread of its own, because NVML
// may take its time and the broker never waits.
#pragma once

#include "server/nvml/gpu_processes.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace sluice::server {

/// Thread-safe.
class ProcessWatch {
 public:
  /// Called on the watch's thread; `device` is the position in what set_devices() was given.
  using Report = std::function<void(std::uint32_t device, const GpuProcesses::Bytes& bytes)>;

  /// Opens the library on its own thread, and says so once if that fails.
  ProcessWatch(std::string library, std::chrono::milliseconds interval, Report report);
  /// No report comes afterwards.
  ~ProcessWatch();
  ProcessWatch(const ProcessWatch&) = delete;
  ProcessWatch& operator=(const ProcessWatch&) = delete;

  void set_devices(std::vector<GpuProcesses::Uuid> uuids);
  /// Something has just changed: measure now.
  void poke();
  /// False: nothing is measured, or not yet.
  [[nodiscard]] bool works() const { return works_; }

 private:
  void run();
  void measure(GpuProcesses& processes, const std::vector<GpuProcesses::Uuid>& uuids);

  const std::string library_;
  const std::chrono::milliseconds interval_;
  const Report report_;
  std::mutex mutex_;  ///< guards what follows
  std::condition_variable changed_;
  std::vector<GpuProcesses::Uuid> uuids_;
  bool is_poked_ = false, is_over_ = false;
  std::atomic<bool> works_{false};
  bool has_complained_ = false;  ///< the thread's
  std::thread thread_;           ///< last: it uses all of the above
};

}  // namespace sluice::server
