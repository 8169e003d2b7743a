// If these fail, strict mode is as good-natured as softgpu itself, and what only works there passes
// the tests.
#include "softgpu/api/strict.h"

#include "tests/cuda/fixture.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <future>
#include <mutex>
#include <set>
#include <thread>

namespace sluice::test {
namespace {

using namespace std::chrono_literals;
constexpr std::size_t kMiB = std::size_t{1} << 20;

/// Read at the first call, hence before any test.
const bool g_is_set = [] {
  ::setenv("SOFTGPU_STRICT", "1", 1);
  ::setenv("SOFTGPU_SEED", "7", 1);
  return true;
}();

class StrictTest : public KernelTest {
 protected:
  static std::size_t used_bytes() {
    std::size_t free = 0, total = 0;
    EXPECT_OK(cuMemGetInfo(&free, &total));
    return total - free;
  }
  CUstream stream() {
    CUstream s = nullptr;
    EXPECT_OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    return s;
  }
  static void CUDA_CB wait(void* gate) { static_cast<std::future<void>*>(gate)->wait_for(20s); }
};

TEST_F(StrictTest, PhysicalMemoryComesInTwoMebibyteSteps) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, device_};
  std::size_t step = 0;
  ASSERT_OK(cuMemGetAllocationGranularity(&step, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  EXPECT_EQ(2 * kMiB, step);
  CUmemGenericAllocationHandle handle = 0;
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemCreate(&handle, kMiB, &properties, 0));
}

TEST_F(StrictTest, AllocationsAreChargedInTwoMebibyteSteps) {
  const std::size_t before = used_bytes();
  CUdeviceptr large = 0;
  ASSERT_OK(cuMemAlloc(&large, 3 * kMiB));
  EXPECT_EQ(before + 4 * kMiB, used_bytes());
  ASSERT_OK(cuMemFree(large));
  EXPECT_EQ(before, used_bytes());
  // Small ones share a step, which may be there already.
  std::vector<CUdeviceptr> small(64);
  for (CUdeviceptr& p : small) ASSERT_OK(cuMemAlloc(&p, 64 * 1024));
  EXPECT_GE(used_bytes(), before + 4 * kMiB);
  EXPECT_EQ(0u, used_bytes() % (2 * kMiB));
  for (const CUdeviceptr p : small) ASSERT_OK(cuMemFree(p));
  EXPECT_EQ(before, used_bytes());
}

TEST_F(StrictTest, TheAddressHintIsSometimesRefused) {
  CUdeviceptr place = 0;
  ASSERT_OK(cuMemAddressReserve(&place, 4 * kMiB, 0, 0, 0));
  ASSERT_OK(cuMemAddressFree(place, 4 * kMiB));
  const CUdeviceptr hint = place - 8192 * 2 * kMiB;  // free, and not what comes without a hint
  int taken = 0, refused = 0;
  for (int i = 0; i < 64; ++i) {
    CUdeviceptr p = 0;
    ASSERT_OK(cuMemAddressReserve(&p, 4 * kMiB, 0, hint, 0));
    ++(p == hint ? taken : refused);
    ASSERT_OK(cuMemAddressFree(p, 4 * kMiB));
  }
  EXPECT_GT(taken, 0);
  EXPECT_GT(refused, 0);
}

TEST_F(StrictTest, WithoutACurrentContextObjectsCannotBeUsed) {
  CUstream s = stream();
  CUevent event = nullptr;
  ASSERT_OK(cuEventCreate(&event, 0));
  CUfunction f = function("bump_counter");
  CUdeviceptr p = words(1);
  ASSERT_OK(cuCtxSynchronize());
  std::thread([&] {  // has no context
    int value = 0;
    CUdeviceptr q = 0;
    EXPECT_CU(CUDA_ERROR_INVALID_CONTEXT, cuStreamSynchronize(s));
    EXPECT_CU(CUDA_ERROR_INVALID_CONTEXT, cuStreamDestroy(s));
    EXPECT_CU(CUDA_ERROR_INVALID_CONTEXT, cuEventRecord(event, s));
    EXPECT_CU(CUDA_ERROR_INVALID_CONTEXT, cuEventQuery(event));
    EXPECT_CU(CUDA_ERROR_INVALID_CONTEXT, cuEventDestroy(event));
    EXPECT_CU(CUDA_ERROR_INVALID_CONTEXT, cuMemcpyDtoHAsync(&value, p, 4, s));
    EXPECT_CU(CUDA_ERROR_INVALID_CONTEXT, cuMemsetD32Async(p, 1, 1, s));
    EXPECT_CU(CUDA_ERROR_INVALID_CONTEXT,
              cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, s, nullptr, nullptr));
    EXPECT_CU(CUDA_ERROR_INVALID_CONTEXT,
              cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, f));
    EXPECT_CU(CUDA_ERROR_INVALID_CONTEXT,
              cuOccupancyMaxActiveBlocksPerMultiprocessor(&value, f, 32, 0));
    EXPECT_CU(CUDA_ERROR_INVALID_CONTEXT, cuModuleGetGlobal(&q, nullptr, module_, "counter"));
    EXPECT_CU(CUDA_ERROR_INVALID_CONTEXT, cuModuleUnload(module_));
    EXPECT_CU(CUDA_ERROR_INVALID_CONTEXT, cuMemGetAddressRange(&q, nullptr, p));
  })
      .join();
  EXPECT_OK(cuStreamDestroy(s)) << "a refused call destroyed it";
  EXPECT_OK(cuEventDestroy(event));
}

TEST_F(StrictTest, ObjectsOfAnotherContextAreInvalidHandles) {
  CUstream s = stream();
  CUevent event = nullptr;
  ASSERT_OK(cuEventCreate(&event, 0));
  CUfunction f = function("bump_counter");
  CUdeviceptr p = words(1, 6);
  ASSERT_OK(cuCtxSynchronize());
  CUcontext other = nullptr;
  ASSERT_OK(cuCtxCreate(&other, nullptr, 0, device_));
  CUfunction g = nullptr;
  CUdeviceptr q = 0;
  CUstream mine = stream();
  int value = 0;
  EXPECT_CU(CUDA_ERROR_INVALID_HANDLE, cuStreamSynchronize(s));
  EXPECT_CU(CUDA_ERROR_INVALID_HANDLE, cuMemsetD32Async(p, 1, 1, s));
  EXPECT_CU(CUDA_ERROR_INVALID_HANDLE, cuEventRecord(event, s));
  EXPECT_CU(CUDA_ERROR_INVALID_HANDLE, cuEventRecord(event, mine));
  EXPECT_CU(CUDA_ERROR_INVALID_HANDLE, cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, s, nullptr, nullptr));
  EXPECT_CU(CUDA_ERROR_INVALID_HANDLE,
            cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, mine, nullptr, nullptr));
  EXPECT_CU(CUDA_ERROR_INVALID_HANDLE, cuModuleGetFunction(&g, module_, "add_one"));
  EXPECT_CU(CUDA_ERROR_INVALID_HANDLE, cuModuleGetGlobal(&q, nullptr, module_, "counter"));
  EXPECT_CU(CUDA_ERROR_INVALID_HANDLE, cuModuleUnload(module_));
  EXPECT_CU(CUDA_ERROR_INVALID_HANDLE, cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, f));
  // What the programming guide promises across devices.
  EXPECT_OK(cuMemcpyDtoHAsync(&value, p, 4, s));
  EXPECT_EQ(6, value);
  EXPECT_OK(cuEventQuery(event));
  EXPECT_OK(cuEventSynchronize(event));
  EXPECT_OK(cuStreamWaitEvent(mine, event, 0));
  ASSERT_OK(cuCtxDestroy(other));
}

TEST_F(StrictTest, CallsInsideHostFunctionsAreNotPermitted) {
  struct Seen {
    CUstream stream;
    CUdeviceptr p;
    CUresult results[5];
  } seen{stream(), words(1), {}};
  ASSERT_OK(cuCtxSynchronize());
  const auto call = [](void* data) {
    auto* s = static_cast<Seen*>(data);
    CUdeviceptr p = 0;
    s->results[0] = cuStreamQuery(s->stream);
    s->results[1] = cuMemAlloc(&p, 16);
    s->results[2] = cuCtxSynchronize();
    s->results[3] = cuMemsetD32Async(s->p, 1, 1, s->stream);
    s->results[4] = cuMemFree(s->p);
  };
  ASSERT_OK(cuLaunchHostFunc(seen.stream, call, &seen));
  ASSERT_OK(cuStreamSynchronize(seen.stream));
  for (const CUresult result : seen.results) EXPECT_CU(CUDA_ERROR_NOT_PERMITTED, result);
  EXPECT_OK(cuMemFree(seen.p)) << "the main thread may go on";
}

TEST_F(StrictTest, ALaunchIntoAFullQueueBlocks) {
  std::promise<void> gate;
  std::future<void> opened = gate.get_future();
  CUstream s = stream(), other = stream();
  CUfunction f = function("bump_counter");
  ASSERT_OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, other, nullptr, nullptr));  // compiled
  ASSERT_OK(cuCtxSynchronize());
  ASSERT_OK(cuLaunchHostFunc(s, wait, &opened));
  constexpr unsigned kCount = 1500;
  std::atomic<unsigned> launched{0};
  std::thread launcher([&] {
    ASSERT_OK(cuCtxSetCurrent(context_));
    for (unsigned i = 0; i < kCount; ++i, ++launched)
      ASSERT_OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, s, nullptr, nullptr));
  });
  while (launched < softgpu::kLaunchQueueMax) std::this_thread::yield();
  // The other stream is not held back, and while it works the launcher had its time.
  for (int i = 0; i < 200; ++i) {
    ASSERT_OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, other, nullptr, nullptr));
    ASSERT_OK(cuStreamSynchronize(other));
  }
  EXPECT_EQ(softgpu::kLaunchQueueMax, launched);
  gate.set_value();
  launcher.join();
  EXPECT_EQ(kCount, launched);
  ASSERT_OK(cuStreamSynchronize(s));
}

TEST_F(StrictTest, LoadingAModuleWaitsForTheDevice) {
  CUstream s = stream();
  CUdeviceptr p = words(1);
  unsigned value = 5, rotations = 100'000'000;
  ASSERT_OK(launch("slow_set", {&p, &value, &rotations}, 1, 1, s));
  CUmodule late = nullptr;
  ASSERT_OK(cuModuleLoadData(&late, kPtx));
  EXPECT_OK(cuStreamQuery(s)) << "the load did not wait";
}

TEST_F(StrictTest, AContextTakesMemory) {
  const std::size_t before = used_bytes();
  CUcontext other = nullptr;
  ASSERT_OK(cuCtxCreate(&other, nullptr, 0, device_));
  EXPECT_EQ(before + 300 * kMiB, used_bytes());
  ASSERT_OK(cuCtxDestroy(other));
  ASSERT_OK(cuCtxSetCurrent(context_));
  EXPECT_EQ(before, used_bytes());
}

TEST_F(StrictTest, AContextThatDoesNotFitIsOutOfMemory) {
  std::size_t free = 0, total = 0;
  ASSERT_OK(cuMemGetInfo(&free, &total));
  CUdeviceptr most = 0;
  ASSERT_OK(cuMemAlloc(&most, free - 200 * kMiB));
  CUcontext other = nullptr;
  EXPECT_CU(CUDA_ERROR_OUT_OF_MEMORY, cuCtxCreate(&other, nullptr, 0, device_));
  CUcontext now = nullptr;
  ASSERT_OK(cuCtxGetCurrent(&now));
  EXPECT_EQ(context_, now);
  EXPECT_OK(cuMemFree(most));
}

TEST_F(StrictTest, MemoryGrowsAtTheFirstLaunch) {
  const std::size_t before = used_bytes();
  ASSERT_OK(launch("bump_counter", {}));
  ASSERT_OK(cuCtxSynchronize());
  const std::size_t after = used_bytes();
  EXPECT_EQ(before + softgpu::kFirstLaunchBytes + softgpu::kModuleLoadBytes, after);
  ASSERT_OK(launch("bump_counter", {}));
  ASSERT_OK(cuCtxSynchronize());
  EXPECT_EQ(after, used_bytes()) << "the second launch costs nothing";
}

TEST_F(StrictTest, AFirstLaunchThatDoesNotFitIsOutOfMemoryAndNotSticky) {
  std::size_t free = 0, total = 0;
  ASSERT_OK(cuMemGetInfo(&free, &total));
  CUdeviceptr most = 0;
  ASSERT_OK(cuMemAlloc(&most, free));
  EXPECT_CU(CUDA_ERROR_OUT_OF_MEMORY, launch("bump_counter", {}));
  ASSERT_OK(cuMemFree(most));
  EXPECT_OK(launch("bump_counter", {}));
  EXPECT_OK(cuCtxSynchronize());
}

TEST(StrictRandomTest, DelaysDependOnTheSeedOnlyAndAreBounded) {
  const auto delays = [](std::uint64_t seed) {
    softgpu::StrictRandom random(seed);
    std::vector<std::uint64_t> out(400);
    for (std::uint64_t& d : out) d = random.delay_us();
    return out;
  };
  EXPECT_EQ(delays(3), delays(3));
  EXPECT_NE(delays(3), delays(4));
  const auto some = delays(5);
  EXPECT_GT(std::set(some.begin(), some.end()).size(), 20u) << "not random";
  for (const std::uint64_t d : some) EXPECT_LE(d, softgpu::StrictRandom::kDelayMaxUs);
}

TEST_F(StrictTest, IndependentStreamsDoNotFinishInTheOrderOfTheirCalls) {
  // Each function is alone in its stream. Without delays between the steps they would mostly run as
  // they were launched; a single exchange is enough here.
  constexpr unsigned kStreams = 48;
  static std::mutex mutex;
  static std::vector<unsigned> order;
  struct Job {
    unsigned index;
  };
  std::vector<Job> jobs(kStreams);
  std::vector<CUstream> streams(kStreams);
  for (CUstream& s : streams) s = stream();
  for (unsigned i = 0; i < kStreams; ++i) {
    jobs[i].index = i;
    ASSERT_OK(cuLaunchHostFunc(
        streams[i],
        [](void* data) {
          const std::lock_guard lock(mutex);
          order.push_back(static_cast<Job*>(data)->index);
        },
        &jobs[i]));
  }
  ASSERT_OK(cuCtxSynchronize());
  ASSERT_EQ(kStreams, order.size());
  EXPECT_FALSE(std::is_sorted(order.begin(), order.end()));
}

}  // namespace
}  // namespace sluice::test
