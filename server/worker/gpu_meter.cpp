#include "server/worker/gpu_meter.h"

namespace sluice::server {

void GpuMeter::begin(CUcontext context, CUstream stream) {
  const std::lock_guard lock(mutex_);
  Period& p = periods_[{context, stream}];
  if (p.is_open) return;
  if (p.stop != nullptr && driver_.cuEventQuery(p.stop) == CUDA_SUCCESS) {
    float ms = 0;
    if (driver_.cuEventElapsedTime_v2 != nullptr &&
        driver_.cuEventElapsedTime_v2(&ms, p.start, p.stop) == CUDA_SUCCESS)
      busy_us_ += static_cast<std::uint64_t>(ms * 1000.0f);
  } else if (p.stop != nullptr) {
    p.is_open = true;  // the last period is still running: this work prolongs it
    return;
  }
  if (p.start == nullptr && driver_.cuEventCreate(&p.start, CU_EVENT_DEFAULT) != CUDA_SUCCESS)
    return;
  p.is_open = driver_.cuEventRecord(p.start, stream) == CUDA_SUCCESS;
}

void GpuMeter::end(CUcontext context, CUstream stream) {
  const std::lock_guard lock(mutex_);
  const auto found = periods_.find({context, stream});
  if (found == periods_.end() || !found->second.is_open) return;
  Period& p = found->second;
  if (p.stop == nullptr && driver_.cuEventCreate(&p.stop, CU_EVENT_DEFAULT) != CUDA_SUCCESS) return;
  if (driver_.cuEventRecord(p.stop, stream) == CUDA_SUCCESS) p.is_open = false;
}

void GpuMeter::collect() {
  const std::lock_guard lock(mutex_);
  for (auto& [where, p] : periods_) {
    if (p.is_open || p.stop == nullptr || driver_.cuEventQuery(p.stop) != CUDA_SUCCESS) continue;
    float ms = 0;
    if (driver_.cuEventElapsedTime_v2 != nullptr &&
        driver_.cuEventElapsedTime_v2(&ms, p.start, p.stop) == CUDA_SUCCESS)
      busy_us_ += static_cast<std::uint64_t>(ms * 1000.0f);
    driver_.cuEventDestroy_v2(p.stop);
    p.stop = nullptr;
  }
}

void GpuMeter::forget(CUcontext context) {
  const std::lock_guard lock(mutex_);
  std::erase_if(periods_, [&](const auto& entry) { return entry.first.first == context; });
}

}  // namespace sluice::server
