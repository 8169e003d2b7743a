#include "server/worker/gpu_meter.h"

namespace sluice::server {

bool GpuMeter::settle(Period& period) {
  if (driver_.cuEventQuery(period.stop) == CUDA_ERROR_NOT_READY) return false;
  float ms = 0;
  if (driver_.cuEventElapsedTime_v2 != nullptr &&
      driver_.cuEventElapsedTime_v2(&ms, period.start, period.stop) == CUDA_SUCCESS && ms > 0)
    busy_us_ += static_cast<std::uint64_t>(ms * 1000.0f);
  period.state = Period::State::kIdle;
  --closing_;
  return true;
}

void GpuMeter::begin(CUcontext context, CUstream stream) {
  const std::lock_guard lock(mutex_);
  Period& period = periods_[{context, stream}];
  if (period.state == Period::State::kOpen) return;
  if (period.state == Period::State::kClosing && !settle(period)) {
    period.state = Period::State::kOpen;  // still running: this work prolongs it
    --closing_;
    return;
  }
  if (period.start == nullptr &&
      driver_.cuEventCreate(&period.start, CU_EVENT_DEFAULT) != CUDA_SUCCESS)
    return;
  if (driver_.cuEventRecord(period.start, stream) == CUDA_SUCCESS)
    period.state = Period::State::kOpen;
}

void GpuMeter::end(CUcontext context, CUstream stream) {
  const std::lock_guard lock(mutex_);
  const auto found = periods_.find({context, stream});
  if (found == periods_.end() || found->second.state != Period::State::kOpen) return;
  Period& period = found->second;
  if (period.stop == nullptr &&
      driver_.cuEventCreate(&period.stop, CU_EVENT_DEFAULT) != CUDA_SUCCESS)
    return;
  if (driver_.cuEventRecord(period.stop, stream) != CUDA_SUCCESS) return;
  period.state = Period::State::kClosing;
  ++closing_;
}

void GpuMeter::collect() {
  const std::lock_guard lock(mutex_);
  if (closing_ == 0) return;
  for (auto& [where, period] : periods_)
    if (period.state == Period::State::kClosing) settle(period);
}

void GpuMeter::forget(CUcontext context, CUstream stream) {
  const std::lock_guard lock(mutex_);
  const auto found = periods_.find({context, stream});
  if (found == periods_.end()) return;
  Period& period = found->second;
  if (period.state == Period::State::kClosing && !settle(period)) --closing_;
  if (period.start != nullptr) driver_.cuEventDestroy_v2(period.start);
  if (period.stop != nullptr) driver_.cuEventDestroy_v2(period.stop);
  periods_.erase(found);
}

void GpuMeter::forget(CUcontext context) {
  const std::lock_guard lock(mutex_);
  for (auto entry = periods_.begin(); entry != periods_.end();) {
    if (entry->first.first != context) {
      ++entry;
      continue;
    }
    // Its work is done by now: the last period still counts.
    if (entry->second.state == Period::State::kClosing && !settle(entry->second)) --closing_;
    entry = periods_.erase(entry);
  }
}

}  // namespace sluice::server
