// Structs of CUDA 11 and 12 that CUDA 13 laid out differently: our libcudart.so.12 and .11.0 are
// compiled with CUDA 13's headers and answer programs that were not. Only what a program hands over
// or gets back is here. tests/cudart/layouts_full.sh compares it with the headers of those
// versions, so this header includes nothing of CUDA's.
#pragma once

#include <cstddef>

// SAME(type, name, count): CUDA 13 has the field, too (at another place); GONE: it has not.
// The fields of cudaDeviceProp in CUDA 11, in order:
#define SLUICE_DEVICE_PROP_11(SAME, GONE)              \
  SAME(char, name, 256)                                \
  SAME(char, uuid, 16)                                 \
  SAME(char, luid, 8)                                  \
  SAME(unsigned, luidDeviceNodeMask, 1)                \
  SAME(std::size_t, totalGlobalMem, 1)                 \
  SAME(std::size_t, sharedMemPerBlock, 1)              \
  SAME(int, regsPerBlock, 1)                           \
  SAME(int, warpSize, 1)                               \
  SAME(std::size_t, memPitch, 1)                       \
  SAME(int, maxThreadsPerBlock, 1)                     \
  SAME(int, maxThreadsDim, 3)                          \
  SAME(int, maxGridSize, 3)                            \
  GONE(int, clockRate, 1)                              \
  SAME(std::size_t, totalConstMem, 1)                  \
  SAME(int, major, 1)                                  \
  SAME(int, minor, 1)                                  \
  SAME(std::size_t, textureAlignment, 1)               \
  SAME(std::size_t, texturePitchAlignment, 1)          \
  GONE(int, deviceOverlap, 1)                          \
  SAME(int, multiProcessorCount, 1)                    \
  GONE(int, kernelExecTimeoutEnabled, 1)               \
  SAME(int, integrated, 1)                             \
  SAME(int, canMapHostMemory, 1)                       \
  GONE(int, computeMode, 1)                            \
  SAME(int, maxTexture1D, 1)                           \
  SAME(int, maxTexture1DMipmap, 1)                     \
  GONE(int, maxTexture1DLinear, 1)                     \
  SAME(int, maxTexture2D, 2)                           \
  SAME(int, maxTexture2DMipmap, 2)                     \
  SAME(int, maxTexture2DLinear, 3)                     \
  SAME(int, maxTexture2DGather, 2)                     \
  SAME(int, maxTexture3D, 3)                           \
  SAME(int, maxTexture3DAlt, 3)                        \
  SAME(int, maxTextureCubemap, 1)                      \
  SAME(int, maxTexture1DLayered, 2)                    \
  SAME(int, maxTexture2DLayered, 3)                    \
  SAME(int, maxTextureCubemapLayered, 2)               \
  SAME(int, maxSurface1D, 1)                           \
  SAME(int, maxSurface2D, 2)                           \
  SAME(int, maxSurface3D, 3)                           \
  SAME(int, maxSurface1DLayered, 2)                    \
  SAME(int, maxSurface2DLayered, 3)                    \
  SAME(int, maxSurfaceCubemap, 1)                      \
  SAME(int, maxSurfaceCubemapLayered, 2)               \
  SAME(std::size_t, surfaceAlignment, 1)               \
  SAME(int, concurrentKernels, 1)                      \
  SAME(int, ECCEnabled, 1)                             \
  SAME(int, pciBusID, 1)                               \
  SAME(int, pciDeviceID, 1)                            \
  SAME(int, pciDomainID, 1)                            \
  SAME(int, tccDriver, 1)                              \
  SAME(int, asyncEngineCount, 1)                       \
  SAME(int, unifiedAddressing, 1)                      \
  GONE(int, memoryClockRate, 1)                        \
  SAME(int, memoryBusWidth, 1)                         \
  SAME(int, l2CacheSize, 1)                            \
  SAME(int, persistingL2CacheMaxSize, 1)               \
  SAME(int, maxThreadsPerMultiProcessor, 1)            \
  SAME(int, streamPrioritiesSupported, 1)              \
  SAME(int, globalL1CacheSupported, 1)                 \
  SAME(int, localL1CacheSupported, 1)                  \
  SAME(std::size_t, sharedMemPerMultiprocessor, 1)     \
  SAME(int, regsPerMultiprocessor, 1)                  \
  SAME(int, managedMemory, 1)                          \
  SAME(int, isMultiGpuBoard, 1)                        \
  SAME(int, multiGpuBoardGroupID, 1)                   \
  SAME(int, hostNativeAtomicSupported, 1)              \
  GONE(int, singleToDoublePrecisionPerfRatio, 1)       \
  SAME(int, pageableMemoryAccess, 1)                   \
  SAME(int, concurrentManagedAccess, 1)                \
  SAME(int, computePreemptionSupported, 1)             \
  SAME(int, canUseHostPointerForRegisteredMem, 1)      \
  SAME(int, cooperativeLaunch, 1)                      \
  GONE(int, cooperativeMultiDeviceLaunch, 1)           \
  SAME(std::size_t, sharedMemPerBlockOptin, 1)         \
  SAME(int, pageableMemoryAccessUsesHostPageTables, 1) \
  SAME(int, directManagedMemAccessFromHost, 1)         \
  SAME(int, maxBlocksPerMultiProcessor, 1)             \
  SAME(int, accessPolicyMaxWindowSize, 1)              \
  SAME(std::size_t, reservedSharedMemPerBlock, 1)

// What CUDA 12 added behind them.
#define SLUICE_DEVICE_PROP_12(SAME, GONE)            \
  SAME(int, hostRegisterSupported, 1)                \
  SAME(int, sparseCudaArraySupported, 1)             \
  SAME(int, hostRegisterReadOnlySupported, 1)        \
  SAME(int, timelineSemaphoreInteropSupported, 1)    \
  SAME(int, memoryPoolsSupported, 1)                 \
  SAME(int, gpuDirectRDMASupported, 1)               \
  SAME(unsigned, gpuDirectRDMAFlushWritesOptions, 1) \
  SAME(int, gpuDirectRDMAWritesOrdering, 1)          \
  SAME(unsigned, memoryPoolSupportedHandleTypes, 1)  \
  SAME(int, deferredMappingCudaArraySupported, 1)    \
  SAME(int, ipcEventSupported, 1)                    \
  SAME(int, clusterLaunch, 1)                        \
  SAME(int, unifiedFunctionPointers, 1)

#define SLUICE_FIELD(type, name, count) type name[count];

namespace sluice::cudart::v11 {

struct DeviceProp {
  SLUICE_DEVICE_PROP_11(SLUICE_FIELD, SLUICE_FIELD)
};
static_assert(sizeof(DeviceProp) == 728);

/// cudaFuncAttributes: CUDA 12 added fields at the end.
struct FuncAttributes {
  std::size_t sharedSizeBytes, constSizeBytes, localSizeBytes;
  int maxThreadsPerBlock, numRegs, ptxVersion, binaryVersion, cacheModeCA;
  int maxDynamicSharedSizeBytes, preferredShmemCarveout;
};
static_assert(sizeof(FuncAttributes) == 56);

/// cudaTextureDesc: CUDA 12 added seamlessCubemap at its end.
inline constexpr std::size_t kTextureDescBytes = 68;

/// cudaExternalSemaphoreSignalParams_v1 and ...WaitParams_v1, which CUDA 11 and 12 take under the
/// names without _v2. CUDA 13's structs have the same parameters and reserved space behind them.
struct SignalParams {
  unsigned long long fence_value, sync_fence, mutex_key;
  unsigned flags;
};
static_assert(sizeof(SignalParams) == 32);
struct WaitParams {
  unsigned long long fence_value, sync_fence, mutex_key;
  unsigned mutex_timeout_ms, padding;
  unsigned flags;
};
static_assert(sizeof(WaitParams) == 40);

}  // namespace sluice::cudart::v11

namespace sluice::cudart::v12 {

struct DeviceProp {
  SLUICE_DEVICE_PROP_11(SLUICE_FIELD, SLUICE_FIELD)
  SLUICE_DEVICE_PROP_12(SLUICE_FIELD, SLUICE_FIELD)
  int reserved[63];
};
static_assert(sizeof(DeviceProp) == 1032);

// These grew at their ends in CUDA 13: our functions touch no more than this of them, in any
// version.
inline constexpr std::size_t kPointerAttributesBytes = 24;
inline constexpr std::size_t kResourceDescBytes = 64;
inline constexpr std::size_t kResourceViewDescBytes = 48;
inline constexpr std::size_t kExternalMemoryHandleDescBytes = 40;
inline constexpr std::size_t kExternalMemoryBufferDescBytes = 24;
inline constexpr std::size_t kExternalMemoryMipmappedArrayDescBytes = 64;
inline constexpr std::size_t kExternalSemaphoreHandleDescBytes = 32;

}  // namespace sluice::cudart::v12

#undef SLUICE_FIELD
