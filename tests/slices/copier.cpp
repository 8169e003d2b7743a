// copier up|down BYTES: copies pinned memory to the device, or back, and never lets the way run
// dry. Prints "ready"; at a line on stdin it stops, compares the ends of the last copies, and
// prints "right COPIES" (exit 0) or "wrong ..." (exit 1), or "failed NAME" (exit 3).
#include "tests/stop_on.h"

#include <cuda.h>
#include <poll.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>

static constexpr unsigned kBuffers = 4;

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const bool is_up = std::strcmp(argv[1], "up") == 0;
  const auto bytes = static_cast<std::size_t>(std::atol(argv[2]));
  CUdevice device;
  CUcontext context;
  CUstream stream;
  CUevent events[kBuffers];
  CUdeviceptr memory[kBuffers];
  void* host[kBuffers];
  stop_on(cuInit(0), "cuInit");
  stop_on(cuDeviceGet(&device, 0), "cuDeviceGet");
  stop_on(cuCtxCreate(&context, nullptr, 0, device), "cuCtxCreate");
  stop_on(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
  for (unsigned i = 0; i < kBuffers; ++i) {
    stop_on(cuEventCreate(&events[i], CU_EVENT_DISABLE_TIMING), "event");
    stop_on(cuMemAlloc(&memory[i], bytes), "cuMemAlloc");
    stop_on(cuMemHostAlloc(&host[i], bytes, 0), "cuMemHostAlloc");
    std::memset(host[i], static_cast<int>(i), bytes);
    stop_on(cuMemsetD8(memory[i], static_cast<unsigned char>(i), bytes), "cuMemsetD8");
  }
  std::printf("ready\n");
  std::fflush(stdout);
  unsigned copies = 0;
  unsigned marks[kBuffers] = {};
  for (pollfd in{0, POLLIN, 0}; poll(&in, 1, 0) == 0; ++copies) {
    const unsigned at = copies % kBuffers;
    stop_on(cuEventSynchronize(events[at]), "cuEventSynchronize");
    marks[at] = copies;
    auto* const last = static_cast<std::byte*>(host[at]) + bytes - sizeof(unsigned);
    if (is_up) {
      std::memcpy(last, &copies, sizeof copies);
      stop_on(cuMemcpyHtoDAsync(memory[at], host[at], bytes, stream), "cuMemcpyHtoDAsync");
    } else {
      stop_on(cuMemsetD32Async(memory[at] + bytes - sizeof(unsigned), copies, 1, stream), "memset");
      stop_on(cuMemcpyDtoHAsync(host[at], memory[at], bytes, stream), "cuMemcpyDtoHAsync");
    }
    stop_on(cuEventRecord(events[at], stream), "cuEventRecord");
  }
  stop_on(cuStreamSynchronize(stream), "cuStreamSynchronize");
  bool is_right = true;
  for (unsigned i = 0; i < kBuffers && i < copies; ++i) {
    unsigned mark = 0;
    const CUdeviceptr last = memory[i] + bytes - sizeof mark;
    if (is_up)
      stop_on(cuMemcpyDtoH(&mark, last, sizeof mark), "cuMemcpyDtoH");
    else
      std::memcpy(&mark, static_cast<std::byte*>(host[i]) + bytes - sizeof mark, sizeof mark);
    is_right = is_right && mark == marks[i];
  }
  std::printf("%s %u\n", is_right ? "right" : "wrong", copies);
  return is_right ? 0 : 1;
}
