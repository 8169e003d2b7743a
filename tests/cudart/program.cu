// What the tests run on the recording driver: one mode per run, results on stdout.
#include <chrono>
#include <cstdio>
#include <cstring>
#include <thread>

__global__ void scale(const float* from, float* to, int n) {
  int i = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) to[i] = 2 * from[i];
}
__global__ void touch() {}
__device__ unsigned char table[64];
__managed__ int shared_number;

// A function of the user's that only looks like one of the runtime's.
extern "C" int cudaHelperOfTheUser(int x) { return x + 1; }

static int run() {
  float host[100], back[100] = {}, *from = nullptr, *to = nullptr;
  for (int i = 0; i < 100; ++i) host[i] = float(i);
  if (cudaMalloc(&from, sizeof host) || cudaMalloc(&to, sizeof host)) return 1;
  if (cudaMemcpy(from, host, sizeof host, cudaMemcpyHostToDevice)) return 2;
  scale<<<dim3(4, 2), dim3(32, 1, 1), 128>>>(from, to, 100);
  if (cudaGetLastError()) return 3;
  touch<<<1, 1>>>();
  if (cudaDeviceSynchronize()) return 4;
  if (cudaMemcpy(back, to, sizeof back, cudaMemcpyDeviceToHost)) return 5;
  for (int i = 0; i < 100; ++i)
    if (back[i] != 2 * host[i]) return 6;
  if (cudaFree(from) || cudaFree(to) || cudaFree(nullptr)) return 7;
  std::printf("OK %d\n", cudaHelperOfTheUser(1));
  return 0;
}

static int errors() {
  void* memory = nullptr;
  std::printf("malloc %d\n", cudaMalloc(&memory, size_t(1) << 60));
  std::printf("peek %d\n", cudaPeekAtLastError());
  cudaError_t other = cudaErrorUnknown;
  std::thread([&] { other = cudaGetLastError(); }).join();
  std::printf("other %d\n", other);
  std::printf("last %d\n", cudaGetLastError());
  std::printf("then %d\n", cudaGetLastError());
  std::printf("query %d\n", cudaStreamQuery(0));
  std::printf("after query %d\n", cudaGetLastError());
  touch<<<1, 2048>>>();
  std::printf("block %d\n", cudaGetLastError());
  touch<<<0, 1>>>();
  std::printf("grid %d\n", cudaGetLastError());
  std::printf("function %d\n", cudaLaunchKernel((const void*)&errors, 1, 1, nullptr, 0, 0));
  std::printf("symbol %d\n", cudaMemcpyToSymbol("no symbol", "x", 1));
  char many[65] = {};
  std::printf("bounds %d\n", cudaMemcpyToSymbol(table, many, 60, 8));
  std::printf("device %d\n", cudaSetDevice(1));
  std::printf("direction %d\n", cudaMemcpy(many, many, 1, (cudaMemcpyKind)9));
  std::printf("pitch %d\n", cudaMemcpy2D(many, 3, many, 4, 4, 2, cudaMemcpyHostToDevice));
  std::printf("unsupported %d\n", cudaGraphicsUnregisterResource(nullptr));
  std::printf("zero %d\n", cudaMalloc(&memory, 0));
  std::printf("text %s %s\n", cudaGetErrorName(cudaErrorMemoryAllocation),
              cudaGetErrorString(cudaErrorMemoryAllocation));
  return 0;
}

static int objects() {
  unsigned char in[64], out[64] = {};
  size_t size = 0;
  for (int i = 0; i < 64; ++i) in[i] = (unsigned char)i;
  if (cudaMemcpyToSymbol(table, in, 32, 32) || cudaMemcpyFromSymbol(out, table, 32, 32)) return 1;
  if (std::memcmp(in, out, 32) || cudaGetSymbolSize(&size, table) || size != 64) return 2;
  if (shared_number != 7) return 3;
  cudaDeviceProp p;
  if (cudaGetDeviceProperties(&p, 0) || std::strcmp(p.name, "fake device")) return 4;
  if (p.warpSize != 32 || p.major != 12 || p.minor != 1 || p.multiProcessorCount != 3) return 5;
  char box[64];
  if (cudaMemset3D(make_cudaPitchedPtr(box, 8, 8, 4), 3, make_cudaExtent(8, 4, 2))) return 6;
  if (cudaMemcpy2D(box, 8, in, 4, 4, 4, cudaMemcpyHostToDevice)) return 7;
  if (cudaDeviceReset() || cudaFree(nullptr)) return 8;
  std::printf("OK\n");
  return 0;
}

// Launches go wrong and are reported, in this order.
static int launch_once() {
  touch<<<1, 1>>>();
  std::printf("launch %d\n", cudaGetLastError());
  std::printf("sync %d\n", cudaDeviceSynchronize());
  return 0;
}

// A driver that comes up late: the file named by the argument makes it work.
static int retry(const char* file) {
  std::printf("early %d\n", cudaFree(nullptr));
  std::fclose(std::fopen(file, "w"));
  int error = 0;
  for (int tries = 0; tries < 2000 && (error = cudaFree(nullptr)) != 0; ++tries)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  std::printf("late %d\n", error);
  cudaGetLastError();  // of the early calls
  return run();
}

int main(int argc, char** argv) {
  const char* mode = argc > 1 ? argv[1] : "run";
  if (!std::strcmp(mode, "idle")) return 0;
  if (!std::strcmp(mode, "errors")) return errors();
  if (!std::strcmp(mode, "objects")) return objects();
  if (!std::strcmp(mode, "launch")) return launch_once();
  if (!std::strcmp(mode, "retry")) return retry(argv[2]);
  return run();
}
