// If the meter loses a period, a tenant's GPU time is reported too small.
#include "server/worker/gpu_meter.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

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
  driver.cuCtxSetCurrent = [](CUcontext) { return CUDA_SUCCESS; };
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

TEST(GpuMeter, CountsOverlappingPeriodsOfTwoStreamsOnce) {
  // Both streams are busy for the same 5 ms: every time since the base is 5 ms here.
  const DriverTable driver = timing_driver();
  GpuMeter meter(driver);
  const auto other = reinterpret_cast<CUstream>(0x20);
  meter.begin(kContext, nullptr);
  meter.begin(kContext, other);
  meter.end(kContext, nullptr);
  meter.end(kContext, other);
  meter.collect();
  EXPECT_EQ(5000u, meter.busy_us());
  meter.begin(kContext, other);
  meter.end(kContext, other);
  meter.collect();
  EXPECT_EQ(10000u, meter.busy_us()) << "a later period counts anew";
}

TEST(Intervals, AddOnlyWhatIsNotCovered) {
  Intervals intervals;
  EXPECT_EQ(10, intervals.add(0, 10));
  EXPECT_EQ(0, intervals.add(2, 8));
  EXPECT_EQ(5, intervals.add(5, 15));
  EXPECT_EQ(5, intervals.add(20, 25));
  EXPECT_EQ(15, intervals.add(-5, 30)) << "5 before, 5 between, 5 behind";
  EXPECT_EQ(0, intervals.add(-5, 30));
}

TEST(GpuMeter, CountsTheLastPeriodOfADestroyedContext) {
  const DriverTable driver = timing_driver();
  GpuMeter meter(driver);
  meter.begin(kContext, nullptr);
  meter.end(kContext, nullptr);
  meter.forget(kContext);
  EXPECT_EQ(5000u, meter.busy_us());
}

TEST(GpuMeter, CountsWhatIsStillUnderWayWhenTheSessionEnds) {
  static int queries = 0;
  queries = 0;
  DriverTable driver = timing_driver();
  driver.cuEventQuery = [](CUevent) { return ++queries < 4 ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS; };
  GpuMeter meter(driver);
  meter.begin(kContext, nullptr);  // nobody has waited for it yet
  meter.finish(std::chrono::seconds(20));
  EXPECT_EQ(5000u, meter.busy_us());
  EXPECT_EQ(4, queries);
}

TEST(GpuMeter, CountsWorkThatDoesNotEndUntilNobodyWaitsForItAnyMore) {
  DriverTable driver = timing_driver();
  driver.cuEventQuery = [](CUevent) { return CUDA_ERROR_NOT_READY; };
  GpuMeter meter(driver);
  meter.begin(kContext, nullptr);
  meter.finish(std::chrono::milliseconds(5));
  EXPECT_GE(meter.busy_us(), 5000u);
}

// A fault must not erase the bill: the driver gives no times of a context that failed.
class GpuMeterFailed : public ::testing::Test {
 protected:
  static constexpr auto kLength = std::chrono::milliseconds(20);
  void run_for_a_while() {
    meter_.begin(kContext, nullptr);
    std::this_thread::sleep_for(kLength);
  }
  void expect_counted() const {
    const std::chrono::microseconds counted(meter_.busy_us());
    EXPECT_GE(counted, kLength);
    EXPECT_LE(counted, std::chrono::steady_clock::now() - start_);
  }
  DriverTable driver_ = timing_driver();
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  GpuMeter meter_{driver_};
};

TEST_F(GpuMeterFailed, CountsAPeriodWhoseEndFailed) {
  run_for_a_while();
  meter_.end(kContext, nullptr);
  driver_.cuEventQuery = [](CUevent) { return CUDA_ERROR_ILLEGAL_ADDRESS; };
  meter_.collect();
  expect_counted();
}

TEST_F(GpuMeterFailed, CountsAPeriodWhoseTimesCannotBeRead) {
  run_for_a_while();
  meter_.end(kContext, nullptr);
  driver_.cuEventElapsedTime_v2 = [](float*, CUevent, CUevent) {
    return CUDA_ERROR_ILLEGAL_ADDRESS;
  };
  meter_.collect();
  expect_counted();
}

TEST_F(GpuMeterFailed, CountsAPeriodWhoseEndCannotBeRecorded) {
  run_for_a_while();
  driver_.cuEventRecord = [](CUevent, CUstream) { return CUDA_ERROR_ILLEGAL_ADDRESS; };
  meter_.end(kContext, nullptr);
  expect_counted();
}

TEST_F(GpuMeterFailed, CountsAPeriodForWhoseEndThereIsNoEvent) {
  run_for_a_while();
  driver_.cuEventCreate = [](CUevent*, unsigned) { return CUDA_ERROR_ILLEGAL_ADDRESS; };
  meter_.end(kContext, nullptr);
  expect_counted();
}

TEST_F(GpuMeterFailed, CountsAPeriodOfAContextThatIsTakenAwayUnderIt) {
  driver_.cuEventQuery = [](CUevent) { return CUDA_ERROR_NOT_READY; };
  run_for_a_while();
  meter_.end(kContext, nullptr);
  meter_.forget(kContext);
  expect_counted();
}

TEST_F(GpuMeterFailed, CountsAPeriodOnce) {
  run_for_a_while();
  driver_.cuEventQuery = [](CUevent) { return CUDA_ERROR_ILLEGAL_ADDRESS; };
  meter_.end(kContext, nullptr);
  meter_.collect();
  meter_.collect();
  meter_.forget(kContext);
  expect_counted();
}

}  // namespace
}  // namespace sluice::server
