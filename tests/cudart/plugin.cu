// A plugin: its kernels register when it is opened, in a program that knows nothing of CUDA.
#include <cstdio>

__global__ void scale(const float* from, float* to, int n) {
  int i = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) to[i] = 2 * from[i];
}

extern "C" int plugin_run() {
  float host[32], back[32] = {}, *from = nullptr, *to = nullptr;
  for (int i = 0; i < 32; ++i) host[i] = float(i);
  if (cudaMalloc(&from, sizeof host) || cudaMalloc(&to, sizeof host)) return 1;
  if (cudaMemcpy(from, host, sizeof host, cudaMemcpyHostToDevice)) return 2;
  scale<<<1, 32>>>(from, to, 32);
  if (cudaMemcpy(back, to, sizeof back, cudaMemcpyDeviceToHost)) return 3;
  for (int i = 0; i < 32; ++i)
    if (back[i] != 2 * host[i]) return 4;
  cudaFree(from);
  cudaFree(to);
  return 0;
}
