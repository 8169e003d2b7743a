// An ordinary CUDA program: it knows nothing of Sluice. Adds two vectors and checks the sum on the CPU.
#include <cstdio>
#include <cstdlib>
#include <vector>

__global__ void vector_add(const float* a, const float* b, float* sum, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) sum[i] = a[i] + b[i];
}

static void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "vector_add: %s: %s\n", what, cudaGetErrorString(error));
  std::exit(1);
}

int main() {
  const int n = 1 << 20;
  std::vector<float> a(n), b(n), sum(n);
  for (int i = 0; i < n; ++i) {
    a[i] = static_cast<float>(i % 1000) * 0.5f;
    b[i] = static_cast<float>(i % 77) - 3.25f;
  }
  float *da, *db, *dsum;
  check(cudaMalloc(&da, n * sizeof(float)), "cudaMalloc");
  check(cudaMalloc(&db, n * sizeof(float)), "cudaMalloc");
  check(cudaMalloc(&dsum, n * sizeof(float)), "cudaMalloc");
  check(cudaMemcpy(da, a.data(), n * sizeof(float), cudaMemcpyHostToDevice), "copying a");
  check(cudaMemcpy(db, b.data(), n * sizeof(float), cudaMemcpyHostToDevice), "copying b");
  vector_add<<<(n + 255) / 256, 256>>>(da, db, dsum, n);
  check(cudaGetLastError(), "launch");
  check(cudaMemcpy(sum.data(), dsum, n * sizeof(float), cudaMemcpyDeviceToHost), "copying the sum");
  for (int i = 0; i < n; ++i)
    if (sum[i] != a[i] + b[i]) {
      std::fprintf(stderr, "vector_add: element %d is %g, expected %g\n", i, sum[i], a[i] + b[i]);
      return 1;
    }
  cudaDeviceProp properties;
  check(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties");
  check(cudaFree(da), "cudaFree");
  check(cudaFree(db), "cudaFree");
  check(cudaFree(dsum), "cudaFree");
  std::printf("vector_add: %d sums correct on \"%s\"\n", n, properties.name);
  return 0;
}
