#include "server/worker/gpu_meter.h"

#include <thread>

namespace sluice::server {

void GpuMeter::set_base(Context& context, CUstream stream) {
  context.busy.clear();
  if (context.base == nullptr &&
      driver_.cuEventCreate(&context.base, CU_EVENT_DEFAULT) != CUDA_SUCCESS)
    return;
  driver_.cuEventRecord(context.base, stream);
}

void GpuMeter::leave(Context& context, Period& period) {
  if (period.state == Period::State::kIdle) return;
  if (period.state == Period::State::kClosing) --closing_;
  period.state = Period::State::kIdle;
  --context.active;
}

bool GpuMeter::settle(Context& context, Period& period) {
  if (driver_.cuEventQuery(period.stop) == CUDA_ERROR_NOT_READY) return false;
  float from_ms = 0;
  float length_ms = 0;
  const auto elapsed = driver_.cuEventElapsedTime_v2;
  if (elapsed != nullptr && context.base != nullptr &&
      elapsed(&length_ms, period.start, period.stop) == CUDA_SUCCESS && length_ms > 0 &&
      elapsed(&from_ms, context.base, period.start) == CUDA_SUCCESS) {
    const double added_ms = context.busy.add(from_ms, static_cast<double>(from_ms) + length_ms);
    busy_us_ += static_cast<std::uint64_t>(added_ms * 1000.0);
  }
  leave(context, period);
  return true;
}

void GpuMeter::begin(CUcontext where, CUstream stream) {
  const std::lock_guard lock(mutex_);
  Context& context = contexts_[where];
  Period& period = context.periods[stream];
  if (period.state == Period::State::kOpen) return;
  if (period.state == Period::State::kClosing && !settle(context, period)) {
    period.state = Period::State::kOpen;  // still running: this work prolongs it
    --closing_;
    return;
  }
  if (period.start == nullptr &&
      driver_.cuEventCreate(&period.start, CU_EVENT_DEFAULT) != CUDA_SUCCESS)
    return;
  if (context.active == 0) set_base(context, stream);
  if (driver_.cuEventRecord(period.start, stream) != CUDA_SUCCESS) return;
  period.state = Period::State::kOpen;
  ++context.active;
}

void GpuMeter::end(CUcontext where, CUstream stream) {
  const std::lock_guard lock(mutex_);
  const auto context = contexts_.find(where);
  if (context != contexts_.end()) close(context->second, stream);
}

void GpuMeter::close(Context& context, CUstream stream) {
  const auto found = context.periods.find(stream);
  if (found == context.periods.end() || found->second.state != Period::State::kOpen) return;
  Period& period = found->second;
  if (period.stop == nullptr &&
      driver_.cuEventCreate(&period.stop, CU_EVENT_DEFAULT) != CUDA_SUCCESS)
    return;
  if (driver_.cuEventRecord(period.stop, stream) != CUDA_SUCCESS) return;
  period.state = Period::State::kClosing;
  ++closing_;
}

void GpuMeter::finish(std::chrono::milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  std::unique_lock lock(mutex_);
  for (auto& [where, context] : contexts_) {
    if (context.active == 0) continue;
    driver_.cuCtxSetCurrent(where);
    for (auto& [stream, period] : context.periods) close(context, stream);
  }
  for (;;) {
    collect_locked();
    if (closing_ == 0 || std::chrono::steady_clock::now() >= deadline) return;
    lock.unlock();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    lock.lock();
  }
}

void GpuMeter::collect() {
  const std::lock_guard lock(mutex_);
  collect_locked();
}

void GpuMeter::collect_locked() {
  if (closing_ == 0) return;
  for (auto& [where, context] : contexts_)
    for (auto& [stream, period] : context.periods)
      if (period.state == Period::State::kClosing) settle(context, period);
}

void GpuMeter::forget(CUcontext where, CUstream stream) {
  const std::lock_guard lock(mutex_);
  const auto context = contexts_.find(where);
  if (context == contexts_.end()) return;
  const auto found = context->second.periods.find(stream);
  if (found == context->second.periods.end()) return;
  Period& period = found->second;
  if (period.state == Period::State::kClosing) settle(context->second, period);
  leave(context->second, period);
  if (period.start != nullptr) driver_.cuEventDestroy_v2(period.start);
  if (period.stop != nullptr) driver_.cuEventDestroy_v2(period.stop);
  context->second.periods.erase(found);
}

void GpuMeter::forget(CUcontext where) {
  const std::lock_guard lock(mutex_);
  const auto context = contexts_.find(where);
  if (context == contexts_.end()) return;
  for (auto& [stream, period] : context->second.periods) {
    // Its work is done by now: the last period still counts.
    if (period.state == Period::State::kClosing) settle(context->second, period);
    leave(context->second, period);
  }
  contexts_.erase(context);
}

}  // namespace sluice::server
