// If the meter loses a period, a tenant's GPU time is reported too small.
#include "server/worker/gpu_meter.h"

#include <gtest/gtest.h>

namespace sluice::server {
namespace {

/// A driver on which every period takes 5 ms and is over at once.
DriverTable timing_driver() {
  DriverTable driver;
  driver.cuEventCreate = [](CUevent* event, unsigned) {
    static std::uintptr_t next = 1;
    *event = reinterpret_cast<CUevent>(next++);
    return CUDA_SUCCESS;
  };
  driver.cuEventDestroy_v2 = [](CUevent) { return CUDA_SUCCESS; };
  driver.cuEventRecord = [](CUevent, CUstream) { return CUDA_SUCCESS; };
  driver.cuEventQuery = [](CUevent) { return CUDA_SUCCESS; };
  driver.cuEventElapsedTime_v2 = [](float* ms, CUevent, CUevent) {
    *ms = 5;
    return CUDA_SUCCESS;
  };
  return driver;
}

const auto kContext = reinterpret_cast<CUcontext>(0x10);

TEST(GpuMeter, CountsAPeriodOnce) {
  const DriverTable driver = timing_driver();
  GpuMeter meter(driver);
  meter.begin(kContext, nullptr);
  meter.begin(kContext, nullptr);
  meter.end(kContext, nullptr);
  meter.collect();
  meter.collect();
  EXPECT_EQ(5000u, meter.busy_us());
}

TEST(GpuMeter, CountsTheLastPeriodOfADestroyedContext) {
  const DriverTable driver = timing_driver();
  GpuMeter meter(driver);
  meter.begin(kContext, nullptr);
  meter.end(kContext, nullptr);
  meter.forget(kContext);
  EXPECT_EQ(5000u, meter.busy_us());
}

}  // namespace
}  // namespace sluice::server
