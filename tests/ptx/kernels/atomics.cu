// Device-only constructs: atomics on global and shared memory, calls that are not inlined, vectors, constants.
__constant__ int table[4] = {1, 20, 300, 4000};
__device__ unsigned counter = 5;

__device__ __noinline__ float polynomial(float x, int n) { return n == 0 ? 1.0f : x * polynomial(x, n - 1) + table[n & 3]; }

extern "C" __global__ void counts(unsigned* histogram, const unsigned* in, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  atomicAdd(&histogram[in[i] & 15], 1u);
  atomicAdd(&counter, 1u);
  atomicMax(&histogram[16], in[i]);
  atomicMin(reinterpret_cast<int*>(&histogram[17]), static_cast<int>(in[i]));
  atomicInc(&histogram[18], 9);
  atomicXor(&histogram[19], in[i]);
  atomicAdd(reinterpret_cast<float*>(&histogram[20]), 0.5f);
  unsigned seen = histogram[21], old;
  do {
    old = seen;
    seen = atomicCAS(&histogram[21], old, old + 2);
  } while (seen != old);
}

extern "C" __global__ void calls(float* out, int n) {
  int i = threadIdx.x;
  if (i < n) out[i] = polynomial(0.5f, i % 6);
}

extern "C" __global__ void in_shared(unsigned* out) {
  extern __shared__ unsigned dynamic[];
  __shared__ unsigned fixed;
  if (threadIdx.x == 0) fixed = 0, dynamic[0] = 0;
  atomicAdd(&fixed, threadIdx.x);
  atomicAdd(&dynamic[0], 1u);
  if (threadIdx.x == blockDim.x - 1) out[blockIdx.x] = fixed * 1000 + dynamic[0];
}

extern "C" __global__ void vectors(const float4* in, float4* out) {
  float4 v = in[threadIdx.x];
  out[threadIdx.x] = make_float4(v.w, v.z, v.y, v.x);
}
