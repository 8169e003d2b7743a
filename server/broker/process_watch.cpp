#include "server/broker/process_watch.h"

#include "common/log.h"

#include <utility>

namespace sluice::server {

ProcessWatch::ProcessWatch(std::string library, std::chrono::milliseconds interval, Report report)
    : library_(std::move(library)),
      interval_(interval),
      report_(std::move(report)),
      thread_([this] { run(); }) {}

ProcessWatch::~ProcessWatch() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void ProcessWatch::set_devices(std::vector<GpuProcesses::Uuid> uuids) {
  const std::lock_guard lock(mutex_);
  uuids_ = std::move(uuids);
}

void ProcessWatch::poke() {
  const std::lock_guard lock(mutex_);
  is_poked_ = true;
  changed_.notify_all();
}

void ProcessWatch::run() {
  const auto processes = GpuProcesses::open(library_);
  if (!processes)
    return SLUICE_LOG_WARN("quota",
                           "what contexts and libraries take of the devices is not measured: {}",
                           processes.error().message);
  works_ = true;
  std::unique_lock lock(mutex_);
  while (!is_over_) {
    changed_.wait_for(lock, interval_, [&] { return is_over_ || is_poked_; });
    is_poked_ = false;
    const std::vector<GpuProcesses::Uuid> uuids = uuids_;
    lock.unlock();
    measure(**processes, uuids);
    lock.lock();
  }
}

void ProcessWatch::measure(GpuProcesses& processes, const std::vector<GpuProcesses::Uuid>& uuids) {
  for (std::uint32_t device = 0; device < uuids.size(); ++device) {
    const auto bytes = processes.of(uuids[device]);
    if (bytes)
      report_(device, *bytes);
    else if (!std::exchange(has_complained_, true))
      SLUICE_LOG_WARN("quota", "overhead of device {} cannot be measured: {}", device,
                      bytes.error().message);
  }
}

}  // namespace sluice::server
