// Sum of an array: shuffles within a warp, shared memory between warps, one atomic per block.
#include "check.h"

#include <vector>

__device__ int warp_sum(int value) {
  for (int step = 16; step > 0; step /= 2) value += __shfl_down_sync(0xFFFFFFFFu, value, step);
  return value;
}

__global__ void sum(const int* in, int n, int* out) {
  __shared__ int warps[32];
  int value = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) value += in[i];
  value = warp_sum(value);
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = value;
  __syncthreads();
  if (threadIdx.x >= 32) return;
  value = threadIdx.x < blockDim.x / 32 ? warps[threadIdx.x] : 0;
  value = warp_sum(value);
  if (threadIdx.x == 0) atomicAdd(out, value);
}

int main() {
  const int n = 1000003;
  std::vector<int> in(n);
  int expected = 0, got = 0;
  for (int i = 0; i < n; ++i) expected += in[i] = i % 4001 * 7919 % 2003 - 1000;
  int* din = device_copy(in.data(), in.size());
  int* dout = device_copy(&got, 1);
  sum<<<64, 256>>>(din, n, dout);
  check(cudaGetLastError(), "launch");
  check(cudaMemcpy(&got, dout, sizeof got, cudaMemcpyDeviceToHost), "copying back");
  if (got != expected) {
    std::fprintf(stderr, "warp_reduce: the sum is %d, expected %d\n", got, expected);
    return 1;
  }
  std::printf("warp_reduce: sum of %d numbers correct: %d\n", n, got);
  return 0;
}
