// greedy BLOCKS LOOPS: launches kernels of BLOCKS blocks, each of which loops LOOPS times and
// counts itself, and never lets the device run dry. Prints "ready"; at a line on stdin it stops,
// compares the count, and prints "right LAUNCHES" (exit 0) or "wrong ..." (exit 1), or "failed
// NAME" (exit 3). LOOPS 0: the kernel never ends.
#include "tests/stop_on.h"

#include <cuda.h>
#include <poll.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

static const char* const kPtx = R"(
.version 7.0
.target sm_75
.address_size 64
.visible .entry spin(.param .u64 counter, .param .u32 loops)
{
  .reg .b32 %r<6>;
  .reg .b64 %a;
  .reg .pred %p<3>;
  ld.param.u64 %a, [counter];
  ld.param.u32 %r1, [loops];
  mov.u32 %r2, 0;
  mov.u32 %r3, 1;
  setp.eq.u32 %p1, %r1, 0;
again:
  mad.lo.u32 %r3, %r3, 1664525, 1013904223;
  xor.b32 %r3, %r3, %r2;
  st.volatile.global.u32 [%a+8], %r3;
  @%p1 bra again;
  add.u32 %r2, %r2, 1;
  setp.lt.u32 %p2, %r2, %r1;
  @%p2 bra again;
  red.global.add.u32 [%a], 1;
  ret;
}
)";

static constexpr unsigned kBatch = 16;

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const auto blocks = static_cast<unsigned>(std::atoi(argv[1]));
  auto loops = static_cast<unsigned>(std::atoi(argv[2]));
  CUdevice device;
  CUcontext context;
  CUmodule module;
  CUfunction function;
  CUstream stream;
  CUevent events[2];
  CUdeviceptr counter;
  stop_on(cuInit(0), "cuInit");
  stop_on(cuDeviceGet(&device, 0), "cuDeviceGet");
  stop_on(cuCtxCreate(&context, nullptr, 0, device), "cuCtxCreate");
  stop_on(cuModuleLoadData(&module, kPtx), "cuModuleLoadData");
  stop_on(cuModuleGetFunction(&function, module, "spin"), "cuModuleGetFunction");
  stop_on(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
  for (CUevent& event : events) stop_on(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), "event");
  stop_on(cuMemAlloc(&counter, 16), "cuMemAlloc");
  stop_on(cuMemsetD8Async(counter, 0, 16, stream), "cuMemsetD8Async");
  stop_on(cuStreamSynchronize(stream), "cuStreamSynchronize");
  std::printf("ready\n");
  std::fflush(stdout);
  unsigned launches = 0;
  for (pollfd in{0, POLLIN, 0}; poll(&in, 1, 0) == 0;) {
    // Two batches: one runs while the other is waited for.
    const unsigned batch = launches / kBatch;
    stop_on(cuEventSynchronize(events[batch % 2]), "cuEventSynchronize");
    for (unsigned i = 0; i < kBatch; ++i, ++launches) {
      void* params[] = {&counter, &loops};
      stop_on(cuLaunchKernel(function, blocks, 1, 1, 1, 1, 1, 0, stream, params, nullptr),
              "cuLaunchKernel");
    }
    stop_on(cuEventRecord(events[batch % 2], stream), "cuEventRecord");
  }
  unsigned counted = 0;
  stop_on(cuStreamSynchronize(stream), "cuStreamSynchronize");
  stop_on(cuMemcpyDtoH(&counted, counter, sizeof counted), "cuMemcpyDtoH");
  const bool is_right = counted == launches * blocks;
  std::printf("%s %u\n", is_right ? "right" : "wrong", launches);
  return is_right ? 0 : 1;
}
