// An ordinary CUDA program: exp, sin, rsqrt and log of many values, compared with the CPU's double precision.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

__global__ void evaluate(const float* x, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float v = x[i];
  out[4 * i + 0] = expf(v * 0.01f);
  out[4 * i + 1] = sinf(v * 100.0f);
  out[4 * i + 2] = rsqrtf(v + 0.5f);
  out[4 * i + 3] = logf(v + 1e-3f);
}

static void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "math: %s: %s\n", what, cudaGetErrorString(error));
  std::exit(1);
}

int main() {
  const int n = 100000;
  std::vector<float> x(n), out(4 * n);
  for (int i = 0; i < n; ++i) x[i] = static_cast<float>(i) * 0.0123f;
  float *dx, *dout;
  check(cudaMalloc(&dx, n * sizeof(float)), "cudaMalloc");
  check(cudaMalloc(&dout, 4 * n * sizeof(float)), "cudaMalloc");
  check(cudaMemcpy(dx, x.data(), n * sizeof(float), cudaMemcpyHostToDevice), "copying x");
  cudaStream_t stream;
  check(cudaStreamCreate(&stream), "cudaStreamCreate");
  cudaEvent_t start, stop;
  check(cudaEventCreate(&start), "cudaEventCreate");
  check(cudaEventCreate(&stop), "cudaEventCreate");
  check(cudaEventRecord(start, stream), "cudaEventRecord");
  evaluate<<<(n + 127) / 128, 128, 0, stream>>>(dx, dout, n);
  check(cudaGetLastError(), "launch");
  check(cudaEventRecord(stop, stream), "cudaEventRecord");
  check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  check(cudaMemcpy(out.data(), dout, 4 * n * sizeof(float), cudaMemcpyDeviceToHost), "copying back");
  double worst = 0;
  for (int i = 0; i < n; ++i) {
    const double v = x[i];
    const double expected[4] = {std::exp(static_cast<double>(x[i] * 0.01f)), std::sin(static_cast<double>(x[i] * 100.0f)),
                                1 / std::sqrt(static_cast<double>(x[i] + 0.5f)),
                                std::log(static_cast<double>(x[i] + 1e-3f))};
    for (int k = 0; k < 4; ++k) {
      const double error = std::fabs(out[4 * i + k] - expected[k]) / std::fmax(std::fabs(expected[k]), 1e-2);
      if (!(error < 2e-5)) {
        std::fprintf(stderr, "math: function %d of %g is %.9g, expected %.9g\n", k, v, out[4 * i + k], expected[k]);
        return 1;
      }
      worst = std::fmax(worst, error);
    }
  }
  float ms = 0;
  check(cudaEventElapsedTime(&ms, start, stop), "cudaEventElapsedTime");
  std::printf("math: %d results correct, largest relative error %.1e, kernel took %.2f ms by events\n", 4 * n, worst, ms);
  return 0;
}
