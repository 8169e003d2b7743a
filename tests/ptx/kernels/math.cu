// Compiled to PTX by nvcc for softgpu, and included by the test as host code.
#ifndef __CUDACC__
#include "tests/ptx/host_kernel.h"
#endif

extern "C" __global__ void vector_add(const float* a, const float* b, float* c, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}

extern "C" __global__ void math(const float* in, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float x = in[i];
  out[8 * i + 0] = expf(x);
  out[8 * i + 1] = sinf(x * 1000000.0f);
  out[8 * i + 2] = logf(fabsf(x) + 0.001f);
  out[8 * i + 3] = 1.0f / sqrtf(fabsf(x) + 0.5f);
  out[8 * i + 4] = tanhf(x);
  out[8 * i + 5] = powf(fabsf(x) + 0.1f, 1.7f);
  out[8 * i + 6] = fmodf(x, 0.37f);
  out[8 * i + 7] = cbrtf(x);
}

extern "C" __global__ void math64(const double* in, double* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  double x = in[i];
  out[4 * i + 0] = exp(x);
  out[4 * i + 1] = sin(x * 1e9);
  out[4 * i + 2] = log(fabs(x) + 0.001);
  out[4 * i + 3] = x / (fabs(x) + 3.0) + sqrt(fabs(x));
}

extern "C" __global__ void integers(const unsigned* in, unsigned long long* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned x = in[i];
  unsigned long long sum = x;
  switch (x % 7) {
    case 0: sum *= 3; break;
    case 1: sum ^= 0x123456789ull; break;
    case 2: sum = (sum << 32) / (x | 1); break;
    case 3: sum = static_cast<unsigned long long>(-static_cast<long long>(x)) % 1000003; break;
    case 4: sum += static_cast<short>(x); break;
    case 5: sum -= static_cast<signed char>(x >> 3); break;
    default: break;
  }
  for (unsigned k = 0; k < (x & 31); ++k) sum = sum * 6364136223846793005ull + 1442695040888963407ull;
  out[i] = sum;
}
