// Histogram: atomics on shared memory in each block, then on global memory between blocks.
#include "check.h"

#include <vector>

__global__ void histogram(const unsigned char* in, int n, unsigned* out) {
  __shared__ unsigned bins[256];
  bins[threadIdx.x] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    atomicAdd(&bins[in[i]], 1u);
  __syncthreads();
  atomicAdd(&out[threadIdx.x], bins[threadIdx.x]);
}

int main() {
  const int n = 1 << 20;
  std::vector<unsigned char> in(n);
  std::vector<unsigned> expected(256), got(256);
  unsigned state = 1;
  for (int i = 0; i < n; ++i) {
    state = state * 1664525u + 1013904223u;
    in[i] = static_cast<unsigned char>((state >> 24) * (state >> 16 & 0xFF) / 255);  // uneven
    ++expected[in[i]];
  }
  unsigned char* din = device_copy(in.data(), in.size());
  unsigned* dout = device_copy(got.data(), got.size());
  histogram<<<48, 256>>>(din, n, dout);
  check(cudaGetLastError(), "launch");
  check(cudaMemcpy(got.data(), dout, 256 * sizeof(unsigned), cudaMemcpyDeviceToHost), "copying back");
  for (int bin = 0; bin < 256; ++bin)
    if (got[bin] != expected[bin]) {
      std::fprintf(stderr, "histogram: bin %d has %u, expected %u\n", bin, got[bin], expected[bin]);
      return 1;
    }
  std::printf("histogram: %d values counted correctly into 256 bins\n", n);
  return 0;
}
