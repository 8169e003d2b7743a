// Matrix product with tiles in shared memory and two __syncthreads() per tile, checked against the CPU.
#include "check.h"

#include <vector>

constexpr int kTile = 16;

__global__ void multiply(const float* a, const float* b, float* c, int n) {
  __shared__ float tile_a[kTile][kTile], tile_b[kTile][kTile];
  int row = blockIdx.y * kTile + threadIdx.y;
  int column = blockIdx.x * kTile + threadIdx.x;
  float sum = 0;
  for (int t = 0; t < n; t += kTile) {
    tile_a[threadIdx.y][threadIdx.x] = a[row * n + t + threadIdx.x];
    tile_b[threadIdx.y][threadIdx.x] = b[(t + threadIdx.y) * n + column];
    __syncthreads();
    for (int k = 0; k < kTile; ++k) sum += tile_a[threadIdx.y][k] * tile_b[k][threadIdx.x];
    __syncthreads();
  }
  c[row * n + column] = sum;
}

int main() {
  const int n = 256;
  std::vector<float> a(n * n), b(n * n), c(n * n);
  for (int i = 0; i < n * n; ++i) {  // small whole numbers: every order of summation is exact
    a[i] = static_cast<float>(i * 7 % 13 - 6);
    b[i] = static_cast<float>(i * 5 % 11 - 5);
  }
  float* da = device_copy(a.data(), a.size());
  float* db = device_copy(b.data(), b.size());
  float* dc = device_copy(c.data(), c.size());
  multiply<<<dim3(n / kTile, n / kTile), dim3(kTile, kTile)>>>(da, db, dc, n);
  check(cudaGetLastError(), "launch");
  check(cudaMemcpy(c.data(), dc, c.size() * sizeof(float), cudaMemcpyDeviceToHost), "copying back");
  for (int row = 0; row < n; ++row)
    for (int column = 0; column < n; ++column) {
      float expected = 0;
      for (int k = 0; k < n; ++k) expected += a[row * n + k] * b[k * n + column];
      if (c[row * n + column] != expected) {
        std::fprintf(stderr, "matmul_tiled: element (%d, %d) is %g, expected %g\n", row, column,
                     c[row * n + column], expected);
        return 1;
      }
    }
  std::printf("matmul_tiled: %d x %d product correct, %d barriers per block\n", n, n, 2 * n / kTile);
  return 0;
}
