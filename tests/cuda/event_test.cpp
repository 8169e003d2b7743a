// Events.
#include "tests/cuda/fixture.h"

namespace sluice::test {

class EventTest : public KernelTest {
 protected:
  CUevent event(unsigned flags = 0) {
    CUevent e = nullptr;
    EXPECT_OK(cuEventCreate(&e, flags));
    return e;
  }
};

TEST_F(EventTest, AnEventNeverRecordedIsDone) {
  CUevent e = event();
  EXPECT_OK(cuEventQuery(e));
  EXPECT_OK(cuEventSynchronize(e));
  EXPECT_OK(cuStreamWaitEvent(nullptr, e, 0));
  EXPECT_OK(cuEventDestroy(e));
}

TEST_F(EventTest, SynchroniseWaitsForTheLatestRecord) {
  CUevent e = event(CU_EVENT_DISABLE_TIMING);
  unsigned* pinned = nullptr;
  ASSERT_OK(cuMemAllocHost(reinterpret_cast<void**>(&pinned), 4));
  CUdeviceptr p = words(1);
  CUstream stream = nullptr;
  ASSERT_OK(cuStreamCreate(&stream, 0));
  for (unsigned k = 1; k <= 10; ++k) {
    unsigned rotations = 30000;
    ASSERT_OK(launch("slow_set", {&p, &k, &rotations}, 1, 1, stream));
    ASSERT_OK(cuMemcpyDtoHAsync(pinned, p, 4, stream));
    ASSERT_OK(cuEventRecord(e, stream));
    ASSERT_OK(cuEventSynchronize(e));
    ASSERT_EQ(k, *static_cast<volatile unsigned*>(pinned));
    ASSERT_OK(cuEventQuery(e));
  }
}

TEST_F(EventTest, ElapsedTimeNeedsTwoTimedRecords) {
  CUevent a = event();
  CUevent b = event();
  CUevent plain = event(CU_EVENT_DISABLE_TIMING);
  float ms = -1;
  ASSERT_OK(cuEventRecord(a, nullptr));
  ASSERT_OK(cuEventRecord(plain, nullptr));
  ASSERT_OK(cuCtxSynchronize());
  EXPECT_CU(CUDA_ERROR_INVALID_HANDLE, cuEventElapsedTime(&ms, a, b));
  EXPECT_CU(CUDA_ERROR_INVALID_HANDLE, cuEventElapsedTime(&ms, a, plain));
  CUdeviceptr p = words(1);
  unsigned value = 1;
  unsigned rotations = 300000;
  ASSERT_OK(launch("slow_set", {&p, &value, &rotations}));
  ASSERT_OK(cuEventRecord(b, nullptr));
  ASSERT_OK(cuEventSynchronize(b));
  ASSERT_OK(cuEventElapsedTime(&ms, a, b));
  EXPECT_GT(ms, 0.0f);
}

TEST_F(EventTest, DestroyedEventsAreRefused) {
  CUevent e = event();
  ASSERT_OK(cuEventDestroy(e));
  EXPECT_NE(CUDA_SUCCESS, cuEventQuery(e));
}

}  // namespace sluice::test
