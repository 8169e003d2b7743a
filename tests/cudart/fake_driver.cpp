// A libcuda.so.1 for tests of the runtime alone: device memory is host memory, everything runs at
// the call, and every call that matters is written to the file that FAKE_DRIVER_LOG names.
// Kernels are known by name: `scale` doubles floats, everything else only leaves a line.
// FAKE_DRIVER_FAIL=NAME:CODE makes one function fail (until the file
// FAKE_DRIVER_FAIL_UNTIL exists), FAKE_DRIVER_VERSION sets its version.
#include <cuda.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>

#define FAKE extern "C" __attribute__((visibility("default"))) CUresult

namespace {

CUcontext const kPrimary = reinterpret_cast<CUcontext>(0x1000);
thread_local CUcontext t_current = nullptr;

struct Kernel {
  std::string name;
};
struct Library {
  std::map<std::string, Kernel> kernels;
  unsigned char table[64] = {};
  int managed = 7;
};

__attribute__((format(printf, 1, 2))) void note(const char* format, ...) {
  const char* path = std::getenv("FAKE_DRIVER_LOG");
  FILE* file = path ? std::fopen(path, "a") : nullptr;
  if (!file) return;
  va_list args;
  va_start(args, format);
  std::vfprintf(file, format, args);
  va_end(args);
  std::fputc('\n', file);
  std::fclose(file);
}

CUresult outcome(const char* function) {
  const char* wish = std::getenv("FAKE_DRIVER_FAIL");
  const char* until = std::getenv("FAKE_DRIVER_FAIL_UNTIL");
  if (until != nullptr && ::access(until, F_OK) == 0) return CUDA_SUCCESS;
  const std::size_t length = std::strlen(function);
  if (wish && std::strncmp(wish, function, length) == 0 && wish[length] == ':')
    return static_cast<CUresult>(std::atoi(wish + length + 1));
  return CUDA_SUCCESS;
}

int driver_version() {
  const char* wish = std::getenv("FAKE_DRIVER_VERSION");
  return wish ? std::atoi(wish) : 13000;
}

void* memory(CUdeviceptr address) {
  return reinterpret_cast<void*>(address);
}

int attribute(CUdevice_attribute which) {
  switch (which) {
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y:
      return 1024;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z:
      return 64;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X:
      return 0x7fffffff;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z:
      return 65535;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
      return 32;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      return 12;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
      return 1;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      return 3;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
      return 1500000;
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE:
      return 2600000;
    case CU_DEVICE_ATTRIBUTE_UNIFIED_FUNCTION_POINTERS:
      return 77;
    default:
      return 0;
  }
}

}  // namespace

FAKE cuInit(unsigned) {
  note("cuInit");
  return outcome("cuInit");
}
FAKE cuDriverGetVersion(int* version) {
  return *version = driver_version(), CUDA_SUCCESS;
}
FAKE cuDeviceGetCount(int* count) {
  return *count = 1, CUDA_SUCCESS;
}
FAKE cuDeviceGet(CUdevice* device, int ordinal) {
  *device = ordinal;
  return ordinal == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}
FAKE cuDeviceGetName(char* name, int bytes, CUdevice) {
  std::snprintf(name, static_cast<std::size_t>(bytes), "fake device");
  return CUDA_SUCCESS;
}
FAKE cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice) {
  std::memset(uuid, 5, sizeof *uuid);
  return CUDA_SUCCESS;
}
FAKE cuDeviceTotalMem_v2(std::size_t* bytes, CUdevice) {
  return *bytes = 1 << 30, CUDA_SUCCESS;
}
FAKE cuDeviceGetAttribute(int* value, CUdevice_attribute which, CUdevice) {
  // CUDA 12 had no attributes from this one on.
  if (driver_version() < 13000 && which >= CU_DEVICE_ATTRIBUTE_HOST_NUMA_MULTINODE_IPC_SUPPORTED)
    return CUDA_ERROR_INVALID_VALUE;
  *value = attribute(which);
  return CUDA_SUCCESS;
}
FAKE cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice) {
  note("cuDevicePrimaryCtxRetain");
  *context = kPrimary;
  return outcome("cuDevicePrimaryCtxRetain");
}
FAKE cuDevicePrimaryCtxRelease_v2(CUdevice) {
  return CUDA_SUCCESS;
}
FAKE cuDevicePrimaryCtxReset_v2(CUdevice) {
  note("cuDevicePrimaryCtxReset");
  return CUDA_SUCCESS;
}
FAKE cuCtxGetCurrent(CUcontext* context) {
  return *context = t_current, CUDA_SUCCESS;
}
FAKE cuCtxSetCurrent(CUcontext context) {
  note("cuCtxSetCurrent %p", static_cast<void*>(context));
  t_current = context;
  return CUDA_SUCCESS;
}
FAKE cuCtxGetDevice(CUdevice* device) {
  return *device = 0, CUDA_SUCCESS;
}
FAKE cuCtxSynchronize() {
  note("cuCtxSynchronize");
  return outcome("cuCtxSynchronize");
}
FAKE cuMemAlloc_v2(CUdeviceptr* address, std::size_t bytes) {
  note("cuMemAlloc_v2 %zu", bytes);
  if (CUresult result = outcome("cuMemAlloc_v2"); result != CUDA_SUCCESS) return result;
  if (bytes > (std::size_t{1} << 30)) return CUDA_ERROR_OUT_OF_MEMORY;
  *address = reinterpret_cast<CUdeviceptr>(std::calloc(1, bytes));
  return CUDA_SUCCESS;
}
FAKE cuMemFree_v2(CUdeviceptr address) {
  note("cuMemFree_v2");
  std::free(memory(address));
  return CUDA_SUCCESS;
}
FAKE cuMemcpyHtoD_v2(CUdeviceptr to, const void* from, std::size_t bytes) {
  note("cuMemcpyHtoD_v2 %zu", bytes);
  std::memcpy(memory(to), from, bytes);
  return CUDA_SUCCESS;
}
FAKE cuMemcpyDtoH_v2(void* to, CUdeviceptr from, std::size_t bytes) {
  note("cuMemcpyDtoH_v2 %zu", bytes);
  std::memcpy(to, memory(from), bytes);
  return CUDA_SUCCESS;
}
FAKE cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, std::size_t bytes, CUstream stream) {
  note("cuMemcpyHtoDAsync_v2 %zu stream=%p", bytes, static_cast<void*>(stream));
  std::memcpy(memory(to), from, bytes);
  return CUDA_SUCCESS;
}
FAKE cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
  note("cuMemcpyDtoHAsync_v2 %zu stream=%p", bytes, static_cast<void*>(stream));
  std::memcpy(to, memory(from), bytes);
  return CUDA_SUCCESS;
}
FAKE cuStreamSynchronize(CUstream stream) {
  note("cuStreamSynchronize stream=%p", static_cast<void*>(stream));
  return CUDA_SUCCESS;
}
FAKE cuStreamQuery(CUstream) {
  return CUDA_ERROR_NOT_READY;
}
FAKE cuMemsetD2D8_v2(CUdeviceptr, std::size_t pitch, unsigned char value, std::size_t width,
                     std::size_t height) {
  note("cuMemsetD2D8_v2 pitch=%zu value=%d %zux%zu", pitch, value, width, height);
  return CUDA_SUCCESS;
}
FAKE cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D* copy) {
  note("cuMemcpy2DUnaligned_v2 %zux%zu from type=%d pitch=%zu to type=%d pitch=%zu",
       copy->WidthInBytes, copy->Height, copy->srcMemoryType, copy->srcPitch, copy->dstMemoryType,
       copy->dstPitch);
  return CUDA_SUCCESS;
}

FAKE cuLibraryLoadData(CUlibrary* library, const void* code, CUjit_option*, void**, unsigned,
                       CUlibraryOption*, void**, unsigned) {
  unsigned magic = 0;
  std::memcpy(&magic, code, sizeof magic);
  note("cuLibraryLoadData magic=%x", magic);
  if (CUresult result = outcome("cuLibraryLoadData"); result != CUDA_SUCCESS) return result;
  *library = reinterpret_cast<CUlibrary>(new Library);
  return CUDA_SUCCESS;
}
FAKE cuLibraryUnload(CUlibrary library) {
  note("cuLibraryUnload");
  delete reinterpret_cast<Library*>(library);
  return CUDA_SUCCESS;
}
FAKE cuLibraryGetKernel(CUkernel* kernel, CUlibrary library, const char* name) {
  note("cuLibraryGetKernel %s", name);
  if (CUresult result = outcome("cuLibraryGetKernel"); result != CUDA_SUCCESS) return result;
  Kernel& entry = reinterpret_cast<Library*>(library)->kernels[name];
  entry.name = name;
  *kernel = reinterpret_cast<CUkernel>(&entry);
  return CUDA_SUCCESS;
}
FAKE cuLibraryGetGlobal(CUdeviceptr* address, std::size_t* bytes, CUlibrary library,
                        const char* name) {
  note("cuLibraryGetGlobal %s", name);
  auto* entry = reinterpret_cast<Library*>(library);
  *address = reinterpret_cast<CUdeviceptr>(entry->table);
  *bytes = sizeof entry->table;
  return CUDA_SUCCESS;
}
FAKE cuLibraryGetManaged(CUdeviceptr* address, std::size_t* bytes, CUlibrary library,
                         const char* name) {
  note("cuLibraryGetManaged %s", name);
  auto* entry = reinterpret_cast<Library*>(library);
  *address = reinterpret_cast<CUdeviceptr>(&entry->managed);
  *bytes = sizeof entry->managed;
  return CUDA_SUCCESS;
}
FAKE cuLaunchKernel(CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                    unsigned by, unsigned bz, unsigned shared, CUstream stream, void** args,
                    void**) {
  const std::string& name = reinterpret_cast<Kernel*>(function)->name;
  note("cuLaunchKernel %s grid=%u,%u,%u block=%u,%u,%u shared=%u stream=%p", name.c_str(), gx, gy,
       gz, bx, by, bz, shared, static_cast<void*>(stream));
  if (CUresult result = outcome("cuLaunchKernel"); result != CUDA_SUCCESS) return result;
  if (gx == 0 || bx * by * bz > 1024) return CUDA_ERROR_INVALID_VALUE;
  if (name.find("scale") != std::string::npos) {
    auto* from = *static_cast<const float**>(args[0]);
    auto* to = *static_cast<float**>(args[1]);
    for (int i = 0; i < *static_cast<int*>(args[2]); ++i) to[i] = 2 * from[i];
  }
  return CUDA_SUCCESS;
}

FAKE cuPointerGetAttributes(unsigned count, CUpointer_attribute* wanted, void** found,
                            CUdeviceptr address) {
  for (unsigned i = 0; i < count; ++i) {
    if (wanted[i] == CU_POINTER_ATTRIBUTE_MEMORY_TYPE)
      *static_cast<unsigned*>(found[i]) = CU_MEMORYTYPE_DEVICE;
    if (wanted[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL) *static_cast<int*>(found[i]) = 0;
    if (wanted[i] == CU_POINTER_ATTRIBUTE_DEVICE_POINTER)
      *static_cast<CUdeviceptr*>(found[i]) = address;
  }
  return CUDA_SUCCESS;
}
FAKE cuMemAdvise_v2(CUdeviceptr, std::size_t bytes, CUmem_advise advice, CUmemLocation location) {
  note("cuMemAdvise_v2 %zu advice=%d type=%d id=%d", bytes, advice, location.type, location.id);
  return CUDA_SUCCESS;
}
FAKE cuMemPrefetchAsync_v2(CUdeviceptr, std::size_t bytes, CUmemLocation location, unsigned,
                           CUstream stream) {
  note("cuMemPrefetchAsync_v2 %zu type=%d id=%d stream=%p", bytes, location.type, location.id,
       static_cast<void*>(stream));
  return CUDA_SUCCESS;
}
FAKE cuStreamGetCaptureInfo_v3(CUstream, CUstreamCaptureStatus* status, cuuint64_t* id,
                               CUgraph* graph, const CUgraphNode** dependencies,
                               const CUgraphEdgeData**, std::size_t* count) {
  static int node;
  static const CUgraphNode nodes[5] = {};
  *status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
  if (id) *id = 42;
  if (graph) *graph = reinterpret_cast<CUgraph>(&node);
  if (dependencies) *dependencies = nodes;
  if (count) *count = 5;
  return CUDA_SUCCESS;
}
FAKE cuGraphAddDependencies_v2(CUgraph, const CUgraphNode*, const CUgraphNode*,
                               const CUgraphEdgeData* edges, std::size_t count) {
  note("cuGraphAddDependencies_v2 %zu edges=%p", count,
       const_cast<void*>(static_cast<const void*>(edges)));
  return CUDA_SUCCESS;
}
FAKE cuGraphGetEdges_v2(CUgraph, CUgraphNode*, CUgraphNode*, CUgraphEdgeData*, std::size_t* count) {
  return *count = 7, CUDA_SUCCESS;
}
FAKE cuGraphInstantiateWithFlags(CUgraphExec* exec, CUgraph graph, unsigned long long flags) {
  note("cuGraphInstantiateWithFlags %llu", flags);
  return *exec = reinterpret_cast<CUgraphExec>(graph), CUDA_SUCCESS;
}
FAKE cuGraphInstantiateWithParams(CUgraphExec* exec, CUgraph graph,
                                  CUDA_GRAPH_INSTANTIATE_PARAMS*) {
  return *exec = reinterpret_cast<CUgraphExec>(graph), CUDA_SUCCESS;
}
FAKE cuGraphExecUpdate_v2(CUgraphExec, CUgraph graph, CUgraphExecUpdateResultInfo* info) {
  info->result = CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
  info->errorNode = reinterpret_cast<CUgraphNode>(graph);
  return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
}
FAKE cuGetProcAddress_v2(const char*, void** function, int, cuuint64_t,
                         CUdriverProcAddressQueryResult*) {
  return *function = reinterpret_cast<void*>(&cuInit), CUDA_SUCCESS;
}
