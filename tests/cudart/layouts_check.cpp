// Compiled by layouts_full.sh with the headers of CUDA 11, 12 and 13: what
// shim/cudart/older/layouts.h and older_program.cpp say about those versions is true. Nothing runs.
#include "shim/cudart/older/layouts.h"

#include <cuda_runtime_api.h>

#include <type_traits>

#if CUDART_VERSION < 13000
using namespace sluice::cudart;

#if CUDART_VERSION >= 12000
using Properties = v12::DeviceProp;
#else
using Properties = v11::DeviceProp;
#endif
static_assert(sizeof(cudaDeviceProp) == sizeof(Properties));
#define SLUICE_CHECK_FIELD(type, name, count)                                  \
  static_assert(offsetof(cudaDeviceProp, name) == offsetof(Properties, name)); \
  static_assert(sizeof(cudaDeviceProp::name) == sizeof(Properties::name));
SLUICE_DEVICE_PROP_11(SLUICE_CHECK_FIELD, SLUICE_CHECK_FIELD)
#if CUDART_VERSION >= 12000
SLUICE_DEVICE_PROP_12(SLUICE_CHECK_FIELD, SLUICE_CHECK_FIELD)
#else
static_assert(sizeof(cudaFuncAttributes) == sizeof(v11::FuncAttributes));
static_assert(offsetof(cudaFuncAttributes, preferredShmemCarveout) ==
              offsetof(v11::FuncAttributes, preferredShmemCarveout));
static_assert(sizeof(cudaTextureDesc) == v11::kTextureDescBytes);
#endif

static_assert(sizeof(cudaPointerAttributes) == v12::kPointerAttributesBytes);
static_assert(sizeof(cudaResourceDesc) == v12::kResourceDescBytes);
static_assert(sizeof(cudaResourceViewDesc) == v12::kResourceViewDescBytes);
static_assert(sizeof(cudaExternalMemoryHandleDesc) == v12::kExternalMemoryHandleDescBytes);
static_assert(sizeof(cudaExternalMemoryBufferDesc) == v12::kExternalMemoryBufferDescBytes);
static_assert(sizeof(cudaExternalMemoryMipmappedArrayDesc) ==
              v12::kExternalMemoryMipmappedArrayDescBytes);
static_assert(sizeof(cudaExternalSemaphoreHandleDesc) == v12::kExternalSemaphoreHandleDescBytes);
using Signal = cudaExternalSemaphoreSignalParams_v1;
static_assert(sizeof(Signal) == sizeof(v11::SignalParams));
static_assert(offsetof(Signal, params.keyedMutex.key) == offsetof(v11::SignalParams, mutex_key));
static_assert(offsetof(Signal, flags) == offsetof(v11::SignalParams, flags));
using Wait = cudaExternalSemaphoreWaitParams_v1;
static_assert(sizeof(Wait) == sizeof(v11::WaitParams));
static_assert(offsetof(Wait, params.keyedMutex.timeoutMs) ==
              offsetof(v11::WaitParams, mutex_timeout_ms));
static_assert(offsetof(Wait, flags) == offsetof(v11::WaitParams, flags));

// The forms of functions that forms.txt calls sluice_v11_*. Headers hide the names behind macros.
#undef cudaStreamGetCaptureInfo
#undef cudaMemPrefetchAsync
static_assert(std::is_same_v<decltype(cudaMemAdvise),
                             cudaError_t(const void*, std::size_t, cudaMemoryAdvise, int)>);
static_assert(std::is_same_v<decltype(cudaMemPrefetchAsync),
                             cudaError_t(const void*, std::size_t, int, cudaStream_t)>);
static_assert(
    std::is_same_v<decltype(cudaGraphGetEdges),
                   cudaError_t(cudaGraph_t, cudaGraphNode_t*, cudaGraphNode_t*, std::size_t*)>);
#endif  // CUDART_VERSION < 13000

// Structs that our functions take from programs of every version as they are.
#define SLUICE_SAME(type, bytes) static_assert(sizeof(type) == bytes)
SLUICE_SAME(cudaMemcpy3DParms, 160);
SLUICE_SAME(cudaMemcpy3DPeerParms, 168);
SLUICE_SAME(cudaMemsetParams, 40);
SLUICE_SAME(cudaKernelNodeParams, 56);
SLUICE_SAME(cudaHostNodeParams, 16);
SLUICE_SAME(cudaMemPoolProps, 88);
SLUICE_SAME(cudaMemPoolPtrExportData, 64);
SLUICE_SAME(cudaIpcMemHandle_t, 64);
SLUICE_SAME(cudaIpcEventHandle_t, 64);
SLUICE_SAME(cudaLaunchConfig_t, 56);
SLUICE_SAME(cudaMemAllocNodeParams, 120);
SLUICE_SAME(cudaAccessPolicyWindow, 32);
