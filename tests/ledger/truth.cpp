// ledger_truth PID...: what softgpu's own account says, whatever any ledger says: the bytes in use
// on device 0, then those of each process, one a line. With the SOFTGPU_ACCOUNT of the server.
#include "images.h"

#include <cstdint>
#include <cstdlib>

/// softgpu/api/sinks.cpp.
extern "C" bool softgpu_process_bytes(int device, int pid, std::uint64_t* bytes);

int main(int argc, char** argv) {
  CUdevice device{};
  CUcontext context = nullptr;
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  stop_on(cuInit(0), "cuInit");
  stop_on(cuDeviceGet(&device, 0), "cuDeviceGet");
  stop_on(cuCtxCreate(&context, nullptr, 0, device), "cuCtxCreate");
  stop_on(cuMemGetInfo(&free_bytes, &total_bytes), "cuMemGetInfo");
  std::printf("%zu\n", total_bytes - free_bytes);
  for (int i = 1; i < argc; ++i) {
    std::uint64_t bytes = 0;
    if (!softgpu_process_bytes(0, std::atoi(argv[i]), &bytes)) return 1;
    std::printf("%llu\n", static_cast<unsigned long long>(bytes));
  }
  return 0;
}
