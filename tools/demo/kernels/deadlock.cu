// A barrier that half of a block never reaches. A GPU hangs or goes on with wrong results; the software GPU ends
// the kernel, so the program finds an error instead. Another context of the same device is not affected.
#include "check.h"

__global__ void half_waits(int* out) {
  if (threadIdx.x < 32)
    asm volatile("bar.sync 1, 64;" ::: "memory");
  else
    asm volatile("bar.sync 2, 64;" ::: "memory");
  out[threadIdx.x] = 1;
}

int main() {
  int zeros[64] = {};
  int* out = device_copy(zeros, 64);
  half_waits<<<1, 64>>>(out);
  check(cudaGetLastError(), "launch");
  const cudaError_t error = cudaDeviceSynchronize();
  if (error != cudaErrorLaunchFailure) {
    std::fprintf(stderr, "deadlock: synchronising gave \"%s\"\n", cudaGetErrorString(error));
    return 1;
  }
  if (cudaMalloc(&out, 4) != cudaErrorLaunchFailure) {
    std::fprintf(stderr, "deadlock: the error was forgotten\n");
    return 1;
  }
  check(cudaDeviceReset(), "cudaDeviceReset");
  check(cudaMalloc(&out, 4), "cudaMalloc in a new context");
  std::printf("deadlock: found, reported as \"%s\", and gone after cudaDeviceReset\n",
              cudaGetErrorString(error));
  return 0;
}
