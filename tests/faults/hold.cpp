// hold MIB [idle|waiting]: holds MIB of device memory, prints "ready FREE TOTAL", then launches and
// synchronises until a call fails or a line comes on stdin. idle: makes no call until then, and one
// after; waiting: is in a call that waits for the line. Prints "failed NAME" (exit 3) or "done"
// (exit 0).
#include "tests/stop_on.h"

#include <cuda.h>
#include <poll.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

static const char* const kPtx =
    ".version 7.0\n.target sm_75\n.address_size 64\n"
    ".visible .entry touch(.param .u64 p)\n{\n .reg .b32 %r;\n .reg .b64 %a;\n ld.param.u64 %a, "
    "[p];\n"
    " ld.global.u32 %r, [%a];\n add.u32 %r, %r, 1;\n st.global.u32 [%a], %r;\n ret;\n}\n";

static void wait_for_line(void*) {
  pollfd in{0, POLLIN, 0};
  poll(&in, 1, -1);
}

int main(int argc, char** argv) {
  const size_t mib = argc > 1 ? static_cast<size_t>(std::atoi(argv[1])) : 1;
  CUdevice device;
  CUcontext context;
  CUmodule module;
  CUfunction function;
  CUdeviceptr p;
  size_t free_bytes = 0, total_bytes = 0;
  stop_on(cuInit(0), "cuInit");
  stop_on(cuDeviceGet(&device, 0), "cuDeviceGet");
  stop_on(cuCtxCreate(&context, nullptr, 0, device), "cuCtxCreate");
  stop_on(cuModuleLoadData(&module, kPtx), "cuModuleLoadData");
  stop_on(cuModuleGetFunction(&function, module, "touch"), "cuModuleGetFunction");
  stop_on(cuMemGetInfo(&free_bytes, &total_bytes), "cuMemGetInfo");
  stop_on(cuMemAlloc(&p, mib << 20), "cuMemAlloc");
  stop_on(cuMemsetD8(p, 0, mib << 20), "cuMemsetD8");
  stop_on(cuCtxSynchronize(), "cuCtxSynchronize");
  std::printf("ready %zu %zu\n", free_bytes, total_bytes);
  std::fflush(stdout);
  const char* how = argc > 2 ? argv[2] : "";
  if (std::strcmp(how, "idle") == 0) wait_for_line(nullptr);
  if (std::strcmp(how, "waiting") == 0)
    stop_on(cuLaunchHostFunc(nullptr, wait_for_line, nullptr), "cuLaunchHostFunc");
  for (;;) {
    void* params[] = {&p};
    stop_on(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, params, nullptr),
            "cuLaunchKernel");
    stop_on(cuCtxSynchronize(), "cuCtxSynchronize");
    pollfd in{0, POLLIN, 0};
    if (poll(&in, 1, 5) > 0) break;
  }
  std::printf("done\n");
  return 0;
}
