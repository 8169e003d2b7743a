#include "server/worker/gpu_meter.h"

#include <thread>

namespace sluice::server {

void GpuMeter::set_base(Context& context, CUstream stream) {
  context.busy.clear();
  context.base_at = Clock::now();
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
  const CUresult result = driver_.cuEventQuery(period.stop);
  if (result == CUDA_ERROR_NOT_READY) return false;
  if (result != CUDA_SUCCESS || !add_measured(context, period)) add_by_host(context, period);
  leave(context, period);
  return true;
}

bool GpuMeter::add_measured(Context& context, const Period& period) {
  float from_ms = 0;
  float length_ms = 0;
  const auto elapsed = driver_.cuEventElapsedTime_v2;
  if (elapsed == nullptr || context.base == nullptr ||
      elapsed(&length_ms, period.start, period.stop) != CUDA_SUCCESS ||
      elapsed(&from_ms, context.base, period.start) != CUDA_SUCCESS)
    return false;
  add(context, from_ms, static_cast<double>(from_ms) + length_ms);
  return true;
}

void GpuMeter::add_by_host(Context& context, const Period& period) {
  using Milliseconds = std::chrono::duration<double, std::milli>;
  add(context, Milliseconds(period.began_at - context.base_at).count(),
      Milliseconds(Clock::now() - context.base_at).count());
}

void GpuMeter::add(Context& context, double from_ms, double to_ms) {
  if (to_ms > from_ms)
    busy_us_ += static_cast<std::uint64_t>(context.busy.add(from_ms, to_ms) * 1000.0);
}

void GpuMeter::end_now(Context& context, Period& period) {
  if (period.state == Period::State::kIdle) return;
  if (period.state == Period::State::kClosing && settle(context, period)) return;
  add_by_host(context, period);
  leave(context, period);
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
  period.began_at = Clock::now();
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
  const bool has_stop = period.stop != nullptr ||
                        driver_.cuEventCreate(&period.stop, CU_EVENT_DEFAULT) == CUDA_SUCCESS;
  if (!has_stop || driver_.cuEventRecord(period.stop, stream) != CUDA_SUCCESS)
    return end_now(context, period);  // the context has failed
  period.state = Period::State::kClosing;
  ++closing_;
}

void GpuMeter::finish(std::chrono::milliseconds patience) {
  const auto deadline = Clock::now() + patience;
  std::unique_lock lock(mutex_);
  for (auto& [where, context] : contexts_) {
    if (context.active == 0) continue;
    driver_.cuCtxSetCurrent(where);
    for (auto& [stream, period] : context.periods) close(context, stream);
  }
  for (;;) {
    collect_locked();
    if (closing_ == 0) return;
    if (Clock::now() >= deadline) break;
    lock.unlock();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    lock.lock();
  }
  for (auto& [where, context] : contexts_)
    for (auto& [stream, period] : context.periods) end_now(context, period);
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
  end_now(context->second, period);
  if (period.start != nullptr) driver_.cuEventDestroy_v2(period.start);
  if (period.stop != nullptr) driver_.cuEventDestroy_v2(period.stop);
  context->second.periods.erase(found);
}

void GpuMeter::forget(CUcontext where) {
  const std::lock_guard lock(mutex_);
  const auto context = contexts_.find(where);
  if (context == contexts_.end()) return;
  for (auto& [stream, period] : context->second.periods) end_now(context->second, period);
  contexts_.erase(context);
}

}  // namespace sluice::server
