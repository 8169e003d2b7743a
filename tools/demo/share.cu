// share SECONDS: keeps the GPU busy for so long, as a training loop does, and checks the result
// against the CPU. Two of them at once show how the GPU's time is divided.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

constexpr int kElements = 1 << 15, kStepsPerLaunch = 512, kLaunchesAhead = 8;

__host__ __device__ unsigned step(unsigned x) { return x * 1664525u + 1013904223u; }

__global__ void advance(unsigned* values) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned x = values[i];
  for (int k = 0; k < kStepsPerLaunch; ++k) x = step(x) ^ (x >> 7);
  values[i] = x;
}

#define CHECK(call)                                                                          \
  if (const cudaError_t error = (call); error != cudaSuccess) {                              \
    std::fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(error));                      \
    return 1;                                                                                \
  }

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[1]) : 2;
  std::vector<unsigned> values(kElements);
  for (int i = 0; i < kElements; ++i) values[i] = static_cast<unsigned>(i);
  unsigned* device = nullptr;
  CHECK(cudaMalloc(&device, kElements * sizeof(unsigned)));
  CHECK(cudaMemcpy(device, values.data(), kElements * sizeof(unsigned), cudaMemcpyHostToDevice));
  cudaEvent_t done[kLaunchesAhead];
  for (cudaEvent_t& event : done) CHECK(cudaEventCreate(&event));
  long launches = 0;
  using Clock = std::chrono::steady_clock;
  for (const auto from = Clock::now(); std::chrono::duration<double>(Clock::now() - from).count() < seconds;) {
    const cudaEvent_t event = done[launches++ % kLaunchesAhead];
    CHECK(cudaEventSynchronize(event));
    advance<<<kElements / 128, 128>>>(device);
    CHECK(cudaGetLastError());
    CHECK(cudaEventRecord(event));
  }
  CHECK(cudaMemcpy(values.data(), device, kElements * sizeof(unsigned), cudaMemcpyDeviceToHost));
  for (int i = 0; i < kElements; i += kElements / 4 + 1) {
    unsigned x = static_cast<unsigned>(i);
    for (long k = 0; k < launches * kStepsPerLaunch; ++k) x = step(x) ^ (x >> 7);
    if (x != values[i]) {
      std::printf("element %d is wrong after %ld launches\n", i, launches);
      return 1;
    }
  }
  std::printf("%ld launches, the result is the CPU's\n", launches);
  return 0;
}
