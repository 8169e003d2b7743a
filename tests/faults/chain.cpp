// chain SEED COMMANDS [bulk]: a computation in which every command depends on the one before, so
// that one that runs twice, not at all, or too early shows in the result. Launches, copies of all
// sizes in both directions, sets and waits, with pauses as a program makes them that computes in
// between; what comes next follows from the seed. With "bulk" most are copies, and long. Prints
// "ready", "at N" now and then, and the result; exit 0. A failed call: "failed NAME at N", exit 3.
#include <cuda.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <random>
#include <vector>

namespace {

// x = x * odd + a; and for data: each word of it folded into x by one thread, in order.
const char* const kPtx =
    ".version 7.0\n.target sm_75\n.address_size 64\n"
    ".visible .entry step(.param .u64 p, .param .u64 a)\n{\n .reg .b64 %x, %y, %p, %a;\n"
    " ld.param.u64 %p, [p];\n ld.param.u64 %a, [a];\n ld.global.u64 %x, [%p];\n"
    " mul.lo.u64 %y, %x, 6364136223846793005;\n add.u64 %y, %y, %a;\n st.global.u64 [%p], %y;\n"
    " ret;\n}\n"
    ".visible .entry fold(.param .u64 p, .param .u64 d, .param .u64 n)\n{\n"
    " .reg .b64 %x, %w, %p, %d, %n;\n .reg .pred %go;\n"
    " ld.param.u64 %p, [p];\n ld.param.u64 %d, [d];\n ld.param.u64 %n, [n];\n"
    " ld.global.u64 %x, [%p];\nagain:\n ld.global.u64 %w, [%d];\n"
    " mul.lo.u64 %x, %x, 6364136223846793005;\n add.u64 %x, %x, %w;\n add.u64 %d, %d, 4096;\n"
    " sub.u64 %n, %n, 1;\n setp.ne.u64 %go, %n, 0;\n @%go bra again;\n st.global.u64 [%p], %x;\n"
    " sub.u64 %d, %d, 4096;\n st.global.u64 [%d], %x;\n ret;\n}\n";

constexpr std::size_t kDataBytes = 8 << 20;
constexpr long kPauseNsMax = 400'000;
constexpr std::size_t kFoldStride = 4096;

bool g_is_bulk = false;
CUfunction g_step, g_fold;
CUstream g_stream;
CUdeviceptr g_x, g_data;
std::uint64_t g_seen = 0;  ///< what the host has read, in its order

CUresult launch(CUfunction function, void** params) {
  return cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, g_stream, params, nullptr);
}

CUresult read_back(std::vector<std::uint64_t>& words, std::size_t bytes) {
  const CUresult result = cuMemcpyDtoHAsync(words.data(), g_data, bytes, g_stream);
  if (result != CUDA_SUCCESS) return result;
  const CUresult waited = cuStreamSynchronize(g_stream);
  for (std::size_t i = 0; i < bytes / sizeof words[0]; i += 64) g_seen = g_seen * 31 + words[i];
  return waited;
}

CUresult command(std::mt19937_64& random, std::vector<std::uint64_t>& words) {
  const std::uint64_t kind = g_is_bulk ? 890 + random() % 95 : random() % 1000;
  std::uint64_t a = random();
  if (kind < 900) {
    void* params[] = {&g_x, &a};
    return launch(g_step, params);
  }
  // Mostly short, at times longer than any buffer of the shim.
  const std::size_t bytes =
      (g_is_bulk || kind % 10 == 0 ? random() % kDataBytes : random() % 60'000) / kFoldStride *
          kFoldStride +
      kFoldStride;
  if (kind < 950) {
    for (std::size_t i = 0; i < bytes / sizeof words[0]; i += 64) words[i] = a += i;
    const CUresult result = cuMemcpyHtoDAsync(g_data, words.data(), bytes, g_stream);
    if (result != CUDA_SUCCESS) return result;
    std::uint64_t count = bytes / kFoldStride;
    void* params[] = {&g_x, &g_data, &count};
    return launch(g_fold, params);
  }
  if (kind < 970) return read_back(words, bytes);
  if (kind < 985) return cuMemsetD8Async(g_data, static_cast<unsigned char>(a), bytes, g_stream);
  return cuStreamSynchronize(g_stream);
}

CUresult set_up() {
  CUdevice device;
  CUcontext context;
  CUmodule module;
  const CUresult results[] = {cuInit(0),
                              cuDeviceGet(&device, 0),
                              cuCtxCreate(&context, nullptr, 0, device),
                              cuModuleLoadData(&module, kPtx),
                              cuModuleGetFunction(&g_step, module, "step"),
                              cuModuleGetFunction(&g_fold, module, "fold"),
                              cuStreamCreate(&g_stream, CU_STREAM_NON_BLOCKING),
                              cuMemAlloc(&g_x, 8),
                              cuMemAlloc(&g_data, kDataBytes + kFoldStride),
                              cuMemsetD8(g_x, 1, 8),
                              cuMemsetD8(g_data, 0, kDataBytes + kFoldStride)};
  for (const CUresult result : results)
    if (result != CUDA_SUCCESS) return result;
  return CUDA_SUCCESS;
}

int fail_with(CUresult result, unsigned long at) {
  const char* name = nullptr;
  if (cuGetErrorName(result, &name) != CUDA_SUCCESS) name = "unknown";
  std::printf("failed %s at %lu\n", name, at);
  return 3;
}

}  // namespace

int main(int argc, char** argv) {
  g_is_bulk = argc == 4 && std::strcmp(argv[3], "bulk") == 0;
  if (argc != (g_is_bulk ? 4 : 3)) return 2;
  std::mt19937_64 random(std::strtoull(argv[1], nullptr, 10));
  const unsigned long commands = std::strtoul(argv[2], nullptr, 10);
  if (const CUresult result = set_up(); result != CUDA_SUCCESS) return fail_with(result, 0);
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  std::printf("ready\n");
  std::vector<std::uint64_t> words((kDataBytes + kFoldStride) / sizeof(std::uint64_t));
  for (unsigned long i = 0; i < commands; ++i) {
    if (const CUresult result = command(random, words); result != CUDA_SUCCESS)
      return fail_with(result, i);
    if (i % (g_is_bulk ? 10 : 100) == 0) std::printf("at %lu\n", i);
    const timespec pause{0, static_cast<long>(random() % kPauseNsMax)};
    nanosleep(&pause, nullptr);
  }
  std::uint64_t x = 0;
  if (const CUresult result = read_back(words, kDataBytes); result != CUDA_SUCCESS)
    return fail_with(result, commands);
  if (const CUresult result = cuMemcpyDtoH(&x, g_x, sizeof x); result != CUDA_SUCCESS)
    return fail_with(result, commands);
  std::printf("result %016llx %016llx\n", static_cast<unsigned long long>(x),
              static_cast<unsigned long long>(g_seen));
  return 0;
}
