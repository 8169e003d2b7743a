// views NVML_LIBRARY STEPS SEED: allocates and frees at random, by both of CUDA's interfaces, and
// after every step asks all that tell of the slice's memory: they must agree. It is alone in its
// tenant. Also: what identifies the device. Prints "agree STEPS" (exit 0), or what disagrees (exit
// 1).
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

namespace {

[[noreturn]] void fail(const char* text, ...) {
  va_list arguments;
  va_start(arguments, text);
  std::vprintf(text, arguments);
  va_end(arguments);
  std::printf("\n");
  std::fflush(stdout);
  ::_exit(1);
}

void require(int result, const char* what) {
  if (result != 0) fail("%s gave %d", what, result);
}
#define REQUIRE(call) require(static_cast<int>(call), #call)

struct Memory {
  unsigned long long total, free, used;
};
struct Pci {
  char legacy[16];
  unsigned domain, bus, device, device_id, subsystem_id;
  char bus_id[32];
};

void* g_nvml = nullptr;
template <class... Args>
int nvml(const char* name, Args... args) {
  const auto function = reinterpret_cast<int (*)(Args...)>(::dlsym(g_nvml, name));
  if (function == nullptr) fail("no %s", name);
  return function(args...);
}

struct View {
  std::size_t free, total;
};

/// cuMemGetInfo first: a free is posted, and this waits until it is done.
void compare(CUdevice device, void* handle, const char* after) {
  View driver{}, runtime{};
  REQUIRE(cuMemGetInfo(&driver.free, &driver.total));
  REQUIRE(cudaMemGetInfo(&runtime.free, &runtime.total));
  Memory memory{};
  REQUIRE(nvml("nvmlDeviceGetMemoryInfo", handle, &memory));
  std::size_t total = 0;
  REQUIRE(cuDeviceTotalMem(&total, device));
  cudaDeviceProp properties{};
  REQUIRE(cudaGetDeviceProperties(&properties, 0));
  if (driver.total != memory.total || driver.total != runtime.total || driver.total != total ||
      driver.total != properties.totalGlobalMem)
    fail(
        "after %s total: cuMemGetInfo %zu, cudaMemGetInfo %zu, NVML %llu, cuDeviceTotalMem %zu, "
        "properties %zu",
        after, driver.total, runtime.total, memory.total, total, properties.totalGlobalMem);
  if (driver.free != memory.free || driver.free != runtime.free ||
      memory.used != memory.total - memory.free)
    fail("after %s free: cuMemGetInfo %zu, cudaMemGetInfo %zu, NVML %llu (used %llu)", after,
         driver.free, runtime.free, memory.free, memory.used);
}

void compare_identity(CUdevice device, void* handle) {
  char driver_text[96] = {}, nvml_text[96] = {};
  REQUIRE(cuDeviceGetName(driver_text, sizeof driver_text, device));
  REQUIRE(nvml("nvmlDeviceGetName", handle, nvml_text, 96u));
  if (std::strcmp(driver_text, nvml_text) != 0) fail("name: %s, %s", driver_text, nvml_text);
  CUuuid uuid;
  REQUIRE(cuDeviceGetUuid(&uuid, device));
  std::string wanted = "GPU-";
  for (int i = 0; i < 16; ++i) {
    char pair[3];
    std::snprintf(pair, sizeof pair, "%02x", static_cast<unsigned char>(uuid.bytes[i]));
    if (i == 4 || i == 6 || i == 8 || i == 10) wanted += '-';
    wanted += pair;
  }
  REQUIRE(nvml("nvmlDeviceGetUUID", handle, nvml_text, 96u));
  if (wanted != nvml_text) fail("uuid: %s, %s", wanted.c_str(), nvml_text);
  char bus_id[64] = {};
  REQUIRE(cuDeviceGetPCIBusId(bus_id, sizeof bus_id, device));
  void* by_bus = nullptr;
  REQUIRE(nvml("nvmlDeviceGetHandleByPciBusId_v2", static_cast<const char*>(bus_id), &by_bus));
  void* by_uuid = nullptr;
  REQUIRE(nvml("nvmlDeviceGetHandleByUUID", static_cast<const char*>(nvml_text), &by_uuid));
  if (by_bus != handle || by_uuid != handle) fail("another handle by PCI address or UUID");
  Pci pci{};
  REQUIRE(nvml("nvmlDeviceGetPciInfo_v3", handle, &pci));
  CUdevice same = -1;
  REQUIRE(cuDeviceGetByPCIBusId(&same, pci.legacy));
  if (same != device) fail("NVML's PCI address %s is another device's", pci.legacy);
  int cuda = 0, version = 0, major = 0, minor = 0, value = 0;
  REQUIRE(cuDriverGetVersion(&cuda));
  REQUIRE(nvml("nvmlSystemGetCudaDriverVersion_v2", &version));
  if (cuda != version) fail("driver version: %d, %d", cuda, version);
  REQUIRE(nvml("nvmlDeviceGetCudaComputeCapability", handle, &major, &minor));
  REQUIRE(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device));
  if (value != major) fail("compute capability: %d, %d", value, major);
  REQUIRE(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device));
  if (value != minor) fail("compute capability: %d, %d", value, minor);
}

struct Block {
  enum Kind { kDriver, kRuntime, kManaged, kPitched } kind;
  void* memory;
};

/// Null: the slice is full, which is an answer as well.
void* allocate(Block::Kind kind, std::size_t bytes) {
  void* memory = nullptr;
  std::size_t pitch = 0;
  CUdeviceptr address = 0;
  int result = 0;
  switch (kind) {
    case Block::kDriver:
      result = cuMemAlloc(&address, bytes);
      memory = reinterpret_cast<void*>(address);
      break;
    case Block::kRuntime:
      result = cudaMalloc(&memory, bytes);
      break;
    case Block::kManaged:
      result = cudaMallocManaged(&memory, bytes, cudaMemAttachGlobal);
      break;
    case Block::kPitched:
      result = cudaMallocPitch(&memory, &pitch, 1000, bytes / 1000 + 1);
      break;
  }
  static_cast<void>(cudaGetLastError());
  if (result == CUDA_ERROR_OUT_OF_MEMORY) return nullptr;
  require(result, "an allocation");
  return memory;
}

void release(const Block& block) {
  if (block.kind == Block::kDriver)
    REQUIRE(cuMemFree(reinterpret_cast<CUdeviceptr>(block.memory)));
  else
    REQUIRE(cudaFree(block.memory));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  g_nvml = ::dlopen(argv[1], RTLD_NOW);
  if (g_nvml == nullptr) fail("%s", ::dlerror());
  const int steps = std::atoi(argv[2]);
  std::mt19937 random(static_cast<unsigned>(std::atoi(argv[3])));
  REQUIRE(nvml("nvmlInit_v2"));
  void* handle = nullptr;
  REQUIRE(nvml("nvmlDeviceGetHandleByIndex_v2", 0u, &handle));
  REQUIRE(cudaSetDevice(0));
  CUdevice device = 0;
  REQUIRE(cuDeviceGet(&device, 0));
  compare_identity(device, handle);
  compare(device, handle, "the start");
  std::vector<Block> blocks;
  for (int i = 0; i < steps; ++i) {
    if (!blocks.empty() && random() % 5 < 2) {
      const std::size_t which = random() % blocks.size();
      release(blocks[which]);
      blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(which));
      compare(device, handle, "a free");
      continue;
    }
    const auto kind = static_cast<Block::Kind>(random() % 4);
    const std::size_t bytes = std::size_t{1} << (random() % 16 + 9);
    if (void* memory = allocate(kind, bytes + random() % bytes)) blocks.push_back({kind, memory});
    compare(device, handle, "an allocation");
  }
  for (const Block& block : blocks) release(block);
  compare(device, handle, "the last free");
  REQUIRE(nvml("nvmlShutdown"));
  std::printf("agree %d\n", steps);
  return 0;
}
