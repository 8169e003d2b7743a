// A program as a compiler of CUDA 12 (MAJOR=12) or CUDA 11 (MAJOR=11) would have left it: it calls
// the forms of functions that those versions had, and checks that nothing is written behind the
// structs that they had. Includes nothing of CUDA's: the build machine has CUDA 13's headers.
#include "shim/cudart/older/layouts.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

extern "C" {
int cudaRuntimeGetVersion(int*);
int cudaMalloc(void**, std::size_t);
int cudaFree(void*);
int cudaGetDeviceProperties(void*, int);
int cudaGetDeviceProperties_v2(void*, int);
int cudaPointerGetAttributes(void*, const void*);
int cudaMemAdvise(const void*, std::size_t, int advice, int device);
int cudaMemPrefetchAsync(const void*, std::size_t, int device, void* stream);
int cudaMemPrefetchAsync_ptsz(const void*, std::size_t, int device, void* stream);
int cudaStreamGetCaptureInfo(void*, int*, unsigned long long*);
int cudaStreamGetCaptureInfo_v2(void*, int*, unsigned long long*, void**, void***, std::size_t*);
int cudaGraphAddDependencies(void*, void**, void**, std::size_t);
int cudaGraphGetEdges(void*, void**, void**, std::size_t*);
int cudaThreadSynchronize();
int cudaCreateTextureObject(unsigned long long*, const void*, const void*, const void*);
int cudaGetTextureObjectResourceDesc(void*, unsigned long long);
int cudaGetTextureObjectTextureDesc(void*, unsigned long long);
int cudaGetTextureObjectResourceViewDesc(void*, unsigned long long);
#if MAJOR == 11
int cudaGraphInstantiate(void**, void*, void**, char*, std::size_t);
int cudaGraphExecUpdate(void*, void*, void**, int*);
int cudaGetDriverEntryPoint(const char*, void**, unsigned long long);
#else
int cudaGraphInstantiate(void**, void*, unsigned long long);
int cudaGetDriverEntryPoint(const char*, void**, unsigned long long, int*);
int cudaMemAdvise_v2(const void*, std::size_t, int advice, long long location);
#endif
}

namespace {

using namespace sluice::cudart;

/// A struct with a guard behind it.
template <std::size_t kBytes>
struct Guarded {
  alignas(8) unsigned char bytes[kBytes + 64];
  Guarded() { std::memset(bytes, 0xA5, sizeof bytes); }
  bool is_intact() const {
    for (std::size_t i = kBytes; i < sizeof bytes; ++i)
      if (bytes[i] != 0xA5) return false;
    return true;
  }
  template <class T>
  const T& as() const {
    return *reinterpret_cast<const T*>(bytes);
  }
};

#define CHECK(condition)                                \
  if (!(condition)) {                                   \
    std::printf("line %d: %s\n", __LINE__, #condition); \
    std::exit(1);                                       \
  }

void check_properties() {
  Guarded<sizeof(v11::DeviceProp)> old;
  CHECK(cudaGetDeviceProperties(&old, 0) == 0);
  CHECK(old.is_intact());
  const auto& p = old.as<v11::DeviceProp>();
  CHECK(std::strcmp(p.name, "fake device") == 0);
  CHECK(p.totalGlobalMem[0] == 1u << 30);
  CHECK(p.multiProcessorCount[0] == 3 && p.warpSize[0] == 32 && p.clockRate[0] == 1500000);
#if MAJOR == 12
  Guarded<sizeof(v12::DeviceProp)> now;
  CHECK(cudaGetDeviceProperties_v2(&now, 0) == 0);
  CHECK(now.is_intact());
  const auto& q = now.as<v12::DeviceProp>();
  CHECK(q.multiProcessorCount[0] == 3 && q.memoryClockRate[0] == 2600000);
  CHECK(q.unifiedFunctionPointers[0] == 77);
#endif
}

void check_memory() {
  void* memory = nullptr;
  CHECK(cudaMalloc(&memory, 256) == 0);
  Guarded<v12::kPointerAttributesBytes> attributes;
  CHECK(cudaPointerGetAttributes(&attributes, memory) == 0);
  CHECK(attributes.is_intact());
  CHECK(attributes.as<int>() == 2);  // device memory
  CHECK(cudaMemAdvise(memory, 256, 1, 0) == 0);
  CHECK(cudaMemPrefetchAsync(memory, 256, -1, nullptr) == 0);  // -1: to the host
  CHECK(cudaMemPrefetchAsync_ptsz(memory, 256, 0, nullptr) == 0);
  CHECK(cudaFree(memory) == 0);
}

void check_textures() {
  // Linear floats: type 2; device pointer, channels (32 bits, kind 2), bytes.
  struct {
    int type;
    void* memory;
    int x, y, z, w, kind;
    std::size_t bytes;
    char rest[64];
  } resource = {2, &resource, 32, 0, 0, 0, 2, 256, {}};
  unsigned char desc[72] = {};
  // Behind CUDA 11's struct: not to be read as CUDA 12's seamlessCubemap.
  desc[v11::kTextureDescBytes] = 1;
  unsigned long long texture = 0;
  CHECK(cudaCreateTextureObject(&texture, &resource, desc, nullptr) == 0);
  Guarded<v12::kResourceDescBytes> resource_found;
  CHECK(cudaGetTextureObjectResourceDesc(&resource_found, texture) == 0);
  CHECK(resource_found.is_intact() && resource_found.as<int>() == 2);
  Guarded<MAJOR == 11 ? v11::kTextureDescBytes : 72> desc_found;
  CHECK(cudaGetTextureObjectTextureDesc(&desc_found, texture) == 0);
  CHECK(desc_found.is_intact());
  Guarded<v12::kResourceViewDescBytes> view;
  CHECK(cudaGetTextureObjectResourceViewDesc(&view, texture) == 0);
  CHECK(view.is_intact());
#if MAJOR == 12
  CHECK(desc_found.bytes[v11::kTextureDescBytes] == 1);
#endif
}

void check_graphs() {
  int status = -1;
  unsigned long long id = 0;
  void* graph = nullptr;
  void** nodes = nullptr;
  std::size_t count = 0;
  CHECK(cudaStreamGetCaptureInfo(nullptr, &status, &id) == 0);
  CHECK(status == 1 && id == 42);
  CHECK(cudaStreamGetCaptureInfo_v2(nullptr, &status, &id, &graph, &nodes, &count) == 0);
  CHECK(count == 5 && graph != nullptr);
  void* from[1] = {graph};
  void* to[1] = {graph};
  CHECK(cudaGraphAddDependencies(graph, from, to, 1) == 0);
  CHECK(cudaGraphGetEdges(graph, nullptr, nullptr, &count) == 0);
  CHECK(count == 7);
  void* exec = nullptr;
#if MAJOR == 11
  char log[8] = "x";
  void* failing = graph;
  CHECK(cudaGraphInstantiate(&exec, graph, &failing, log, sizeof log) == 0);
  CHECK(failing == nullptr && log[0] == '\0');
  int result = -1;
  CHECK(cudaGraphExecUpdate(exec, graph, &failing, &result) == 910);  // it cannot be updated
  CHECK(result == 3 && failing == graph);
#else
  CHECK(cudaGraphInstantiate(&exec, graph, 1) == 0);
#endif
}

}  // namespace

int main() {
  int version = 0;
  CHECK(cudaRuntimeGetVersion(&version) == 0);
  check_properties();
  check_memory();
  check_textures();
  check_graphs();
  void* function = nullptr;
#if MAJOR == 11
  CHECK(cudaGetDriverEntryPoint("cuInit", &function, 0) == 0);
#else
  CHECK(cudaGetDriverEntryPoint("cuInit", &function, 0, nullptr) == 0);
#endif
  CHECK(cudaThreadSynchronize() == 0);
  std::printf("OK %d\n", version);
  return 0;
}
