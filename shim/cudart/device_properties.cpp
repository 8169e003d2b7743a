// cudaDeviceProp: one table says which attribute fills which field.
#include "shim/cudart/runtime.h"

#include <cstring>

using namespace sluice::cudart;
using sluice::DriverTable;

namespace {

struct IntField {
  int* field;
  CUdevice_attribute attribute;
};
struct SizeField {
  std::size_t* field;
  CUdevice_attribute attribute;
};

#define SLUICE_ATTR(name) CU_DEVICE_ATTRIBUTE_##name

CUresult fill_ints(const DriverTable& cu, CUdevice device, std::initializer_list<IntField> fields) {
  for (const IntField& entry : fields)
    if (CUresult result = attribute_or_zero(cu, entry.field, entry.attribute, device);
        result != CUDA_SUCCESS)
      return result;
  return CUDA_SUCCESS;
}

CUresult fill_sizes(const DriverTable& cu, CUdevice device, cudaDeviceProp* p) {
  const SizeField fields[] = {
      {&p->sharedMemPerBlock, SLUICE_ATTR(MAX_SHARED_MEMORY_PER_BLOCK)},
      {&p->memPitch, SLUICE_ATTR(MAX_PITCH)},
      {&p->totalConstMem, SLUICE_ATTR(TOTAL_CONSTANT_MEMORY)},
      {&p->textureAlignment, SLUICE_ATTR(TEXTURE_ALIGNMENT)},
      {&p->texturePitchAlignment, SLUICE_ATTR(TEXTURE_PITCH_ALIGNMENT)},
      {&p->surfaceAlignment, SLUICE_ATTR(SURFACE_ALIGNMENT)},
      {&p->sharedMemPerMultiprocessor, SLUICE_ATTR(MAX_SHARED_MEMORY_PER_MULTIPROCESSOR)},
      {&p->sharedMemPerBlockOptin, SLUICE_ATTR(MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)},
      {&p->reservedSharedMemPerBlock, SLUICE_ATTR(RESERVED_SHARED_MEMORY_PER_BLOCK)},
  };
  for (const SizeField& entry : fields) {
    int value = 0;
    if (CUresult result = attribute_or_zero(cu, &value, entry.attribute, device);
        result != CUDA_SUCCESS)
      return result;
    *entry.field = static_cast<std::size_t>(value);
  }
  return CUDA_SUCCESS;
}

CUresult fill_basic(const DriverTable& cu, CUdevice device, cudaDeviceProp* p) {
  return fill_ints(cu, device,
                   {{&p->regsPerBlock, SLUICE_ATTR(MAX_REGISTERS_PER_BLOCK)},
                    {&p->warpSize, SLUICE_ATTR(WARP_SIZE)},
                    {&p->maxThreadsPerBlock, SLUICE_ATTR(MAX_THREADS_PER_BLOCK)},
                    {&p->maxThreadsDim[0], SLUICE_ATTR(MAX_BLOCK_DIM_X)},
                    {&p->maxThreadsDim[1], SLUICE_ATTR(MAX_BLOCK_DIM_Y)},
                    {&p->maxThreadsDim[2], SLUICE_ATTR(MAX_BLOCK_DIM_Z)},
                    {&p->maxGridSize[0], SLUICE_ATTR(MAX_GRID_DIM_X)},
                    {&p->maxGridSize[1], SLUICE_ATTR(MAX_GRID_DIM_Y)},
                    {&p->maxGridSize[2], SLUICE_ATTR(MAX_GRID_DIM_Z)},
                    {&p->major, SLUICE_ATTR(COMPUTE_CAPABILITY_MAJOR)},
                    {&p->minor, SLUICE_ATTR(COMPUTE_CAPABILITY_MINOR)},
                    {&p->multiProcessorCount, SLUICE_ATTR(MULTIPROCESSOR_COUNT)},
                    {&p->integrated, SLUICE_ATTR(INTEGRATED)},
                    {&p->canMapHostMemory, SLUICE_ATTR(CAN_MAP_HOST_MEMORY)},
                    {&p->concurrentKernels, SLUICE_ATTR(CONCURRENT_KERNELS)},
                    {&p->ECCEnabled, SLUICE_ATTR(ECC_ENABLED)},
                    {&p->pciBusID, SLUICE_ATTR(PCI_BUS_ID)},
                    {&p->pciDeviceID, SLUICE_ATTR(PCI_DEVICE_ID)},
                    {&p->pciDomainID, SLUICE_ATTR(PCI_DOMAIN_ID)},
                    {&p->tccDriver, SLUICE_ATTR(TCC_DRIVER)},
                    {&p->asyncEngineCount, SLUICE_ATTR(ASYNC_ENGINE_COUNT)},
                    {&p->unifiedAddressing, SLUICE_ATTR(UNIFIED_ADDRESSING)},
                    {&p->memoryBusWidth, SLUICE_ATTR(GLOBAL_MEMORY_BUS_WIDTH)},
                    {&p->l2CacheSize, SLUICE_ATTR(L2_CACHE_SIZE)},
                    {&p->persistingL2CacheMaxSize, SLUICE_ATTR(MAX_PERSISTING_L2_CACHE_SIZE)},
                    {&p->maxThreadsPerMultiProcessor, SLUICE_ATTR(MAX_THREADS_PER_MULTIPROCESSOR)},
                    {&p->streamPrioritiesSupported, SLUICE_ATTR(STREAM_PRIORITIES_SUPPORTED)},
                    {&p->globalL1CacheSupported, SLUICE_ATTR(GLOBAL_L1_CACHE_SUPPORTED)},
                    {&p->localL1CacheSupported, SLUICE_ATTR(LOCAL_L1_CACHE_SUPPORTED)},
                    {&p->regsPerMultiprocessor, SLUICE_ATTR(MAX_REGISTERS_PER_MULTIPROCESSOR)},
                    {&p->maxBlocksPerMultiProcessor, SLUICE_ATTR(MAX_BLOCKS_PER_MULTIPROCESSOR)},
                    {&p->accessPolicyMaxWindowSize, SLUICE_ATTR(MAX_ACCESS_POLICY_WINDOW_SIZE)}});
}

CUresult fill_memory(const DriverTable& cu, CUdevice device, cudaDeviceProp* p) {
  int flush_options = 0;
  int handle_types = 0;
  int pci_device = 0;
  int pci_subsystem = 0;
  CUresult result = fill_ints(
      cu, device,
      {{&p->managedMemory, SLUICE_ATTR(MANAGED_MEMORY)},
       {&p->isMultiGpuBoard, SLUICE_ATTR(MULTI_GPU_BOARD)},
       {&p->multiGpuBoardGroupID, SLUICE_ATTR(MULTI_GPU_BOARD_GROUP_ID)},
       {&p->hostNativeAtomicSupported, SLUICE_ATTR(HOST_NATIVE_ATOMIC_SUPPORTED)},
       {&p->pageableMemoryAccess, SLUICE_ATTR(PAGEABLE_MEMORY_ACCESS)},
       {&p->concurrentManagedAccess, SLUICE_ATTR(CONCURRENT_MANAGED_ACCESS)},
       {&p->computePreemptionSupported, SLUICE_ATTR(COMPUTE_PREEMPTION_SUPPORTED)},
       {&p->canUseHostPointerForRegisteredMem,
        SLUICE_ATTR(CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM)},
       {&p->cooperativeLaunch, SLUICE_ATTR(COOPERATIVE_LAUNCH)},
       {&p->pageableMemoryAccessUsesHostPageTables,
        SLUICE_ATTR(PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES)},
       {&p->directManagedMemAccessFromHost, SLUICE_ATTR(DIRECT_MANAGED_MEM_ACCESS_FROM_HOST)},
       {&p->hostRegisterSupported, SLUICE_ATTR(HOST_REGISTER_SUPPORTED)},
       {&p->sparseCudaArraySupported, SLUICE_ATTR(SPARSE_CUDA_ARRAY_SUPPORTED)},
       {&p->hostRegisterReadOnlySupported, SLUICE_ATTR(READ_ONLY_HOST_REGISTER_SUPPORTED)},
       {&p->timelineSemaphoreInteropSupported, SLUICE_ATTR(TIMELINE_SEMAPHORE_INTEROP_SUPPORTED)},
       {&p->memoryPoolsSupported, SLUICE_ATTR(MEMORY_POOLS_SUPPORTED)},
       {&p->gpuDirectRDMASupported, SLUICE_ATTR(GPU_DIRECT_RDMA_SUPPORTED)},
       {&flush_options, SLUICE_ATTR(GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS)},
       {&p->gpuDirectRDMAWritesOrdering, SLUICE_ATTR(GPU_DIRECT_RDMA_WRITES_ORDERING)},
       {&handle_types, SLUICE_ATTR(MEMPOOL_SUPPORTED_HANDLE_TYPES)},
       {&p->deferredMappingCudaArraySupported, SLUICE_ATTR(DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED)},
       {&p->ipcEventSupported, SLUICE_ATTR(IPC_EVENT_SUPPORTED)},
       {&p->clusterLaunch, SLUICE_ATTR(CLUSTER_LAUNCH)},
       {&p->unifiedFunctionPointers, SLUICE_ATTR(UNIFIED_FUNCTION_POINTERS)},
       {&p->deviceNumaConfig, SLUICE_ATTR(NUMA_CONFIG)},
       {&p->deviceNumaId, SLUICE_ATTR(NUMA_ID)},
       {&p->mpsEnabled, SLUICE_ATTR(MPS_ENABLED)},
       {&p->hostNumaId, SLUICE_ATTR(HOST_NUMA_ID)},
       {&pci_device, SLUICE_ATTR(GPU_PCI_DEVICE_ID)},
       {&pci_subsystem, SLUICE_ATTR(GPU_PCI_SUBSYSTEM_ID)},
       {&p->hostNumaMultinodeIpcSupported, SLUICE_ATTR(HOST_NUMA_MULTINODE_IPC_SUPPORTED)}});
  p->gpuDirectRDMAFlushWritesOptions = static_cast<unsigned>(flush_options);
  p->memoryPoolSupportedHandleTypes = static_cast<unsigned>(handle_types);
  p->gpuPciDeviceID = static_cast<unsigned>(pci_device);
  p->gpuPciSubsystemID = static_cast<unsigned>(pci_subsystem);
  return result;
}

CUresult fill_textures(const DriverTable& cu, CUdevice device, cudaDeviceProp* p) {
  return fill_ints(
      cu, device,
      {{&p->maxTexture1D, SLUICE_ATTR(MAXIMUM_TEXTURE1D_WIDTH)},
       {&p->maxTexture1DMipmap, SLUICE_ATTR(MAXIMUM_TEXTURE1D_MIPMAPPED_WIDTH)},
       {&p->maxTexture2D[0], SLUICE_ATTR(MAXIMUM_TEXTURE2D_WIDTH)},
       {&p->maxTexture2D[1], SLUICE_ATTR(MAXIMUM_TEXTURE2D_HEIGHT)},
       {&p->maxTexture2DMipmap[0], SLUICE_ATTR(MAXIMUM_TEXTURE2D_MIPMAPPED_WIDTH)},
       {&p->maxTexture2DMipmap[1], SLUICE_ATTR(MAXIMUM_TEXTURE2D_MIPMAPPED_HEIGHT)},
       {&p->maxTexture2DLinear[0], SLUICE_ATTR(MAXIMUM_TEXTURE2D_LINEAR_WIDTH)},
       {&p->maxTexture2DLinear[1], SLUICE_ATTR(MAXIMUM_TEXTURE2D_LINEAR_HEIGHT)},
       {&p->maxTexture2DLinear[2], SLUICE_ATTR(MAXIMUM_TEXTURE2D_LINEAR_PITCH)},
       {&p->maxTexture2DGather[0], SLUICE_ATTR(MAXIMUM_TEXTURE2D_GATHER_WIDTH)},
       {&p->maxTexture2DGather[1], SLUICE_ATTR(MAXIMUM_TEXTURE2D_GATHER_HEIGHT)},
       {&p->maxTexture3D[0], SLUICE_ATTR(MAXIMUM_TEXTURE3D_WIDTH)},
       {&p->maxTexture3D[1], SLUICE_ATTR(MAXIMUM_TEXTURE3D_HEIGHT)},
       {&p->maxTexture3D[2], SLUICE_ATTR(MAXIMUM_TEXTURE3D_DEPTH)},
       {&p->maxTexture3DAlt[0], SLUICE_ATTR(MAXIMUM_TEXTURE3D_WIDTH_ALTERNATE)},
       {&p->maxTexture3DAlt[1], SLUICE_ATTR(MAXIMUM_TEXTURE3D_HEIGHT_ALTERNATE)},
       {&p->maxTexture3DAlt[2], SLUICE_ATTR(MAXIMUM_TEXTURE3D_DEPTH_ALTERNATE)},
       {&p->maxTextureCubemap, SLUICE_ATTR(MAXIMUM_TEXTURECUBEMAP_WIDTH)},
       {&p->maxTexture1DLayered[0], SLUICE_ATTR(MAXIMUM_TEXTURE1D_LAYERED_WIDTH)},
       {&p->maxTexture1DLayered[1], SLUICE_ATTR(MAXIMUM_TEXTURE1D_LAYERED_LAYERS)},
       {&p->maxTexture2DLayered[0], SLUICE_ATTR(MAXIMUM_TEXTURE2D_LAYERED_WIDTH)},
       {&p->maxTexture2DLayered[1], SLUICE_ATTR(MAXIMUM_TEXTURE2D_LAYERED_HEIGHT)},
       {&p->maxTexture2DLayered[2], SLUICE_ATTR(MAXIMUM_TEXTURE2D_LAYERED_LAYERS)},
       {&p->maxTextureCubemapLayered[0], SLUICE_ATTR(MAXIMUM_TEXTURECUBEMAP_LAYERED_WIDTH)},
       {&p->maxTextureCubemapLayered[1], SLUICE_ATTR(MAXIMUM_TEXTURECUBEMAP_LAYERED_LAYERS)}});
}

CUresult fill_surfaces(const DriverTable& cu, CUdevice device, cudaDeviceProp* p) {
  return fill_ints(
      cu, device,
      {{&p->maxSurface1D, SLUICE_ATTR(MAXIMUM_SURFACE1D_WIDTH)},
       {&p->maxSurface2D[0], SLUICE_ATTR(MAXIMUM_SURFACE2D_WIDTH)},
       {&p->maxSurface2D[1], SLUICE_ATTR(MAXIMUM_SURFACE2D_HEIGHT)},
       {&p->maxSurface3D[0], SLUICE_ATTR(MAXIMUM_SURFACE3D_WIDTH)},
       {&p->maxSurface3D[1], SLUICE_ATTR(MAXIMUM_SURFACE3D_HEIGHT)},
       {&p->maxSurface3D[2], SLUICE_ATTR(MAXIMUM_SURFACE3D_DEPTH)},
       {&p->maxSurface1DLayered[0], SLUICE_ATTR(MAXIMUM_SURFACE1D_LAYERED_WIDTH)},
       {&p->maxSurface1DLayered[1], SLUICE_ATTR(MAXIMUM_SURFACE1D_LAYERED_LAYERS)},
       {&p->maxSurface2DLayered[0], SLUICE_ATTR(MAXIMUM_SURFACE2D_LAYERED_WIDTH)},
       {&p->maxSurface2DLayered[1], SLUICE_ATTR(MAXIMUM_SURFACE2D_LAYERED_HEIGHT)},
       {&p->maxSurface2DLayered[2], SLUICE_ATTR(MAXIMUM_SURFACE2D_LAYERED_LAYERS)},
       {&p->maxSurfaceCubemap, SLUICE_ATTR(MAXIMUM_SURFACECUBEMAP_WIDTH)},
       {&p->maxSurfaceCubemapLayered[0], SLUICE_ATTR(MAXIMUM_SURFACECUBEMAP_LAYERED_WIDTH)},
       {&p->maxSurfaceCubemapLayered[1], SLUICE_ATTR(MAXIMUM_SURFACECUBEMAP_LAYERED_LAYERS)}});
}
#undef SLUICE_ATTR

CUresult fill_properties(const DriverTable& cu, CUdevice device, cudaDeviceProp* p) {
  std::memset(p, 0, sizeof *p);
  CUresult result = cu.cuDeviceGetName(p->name, static_cast<int>(sizeof p->name), device);
  if (result == CUDA_SUCCESS)
    result = cu.cuDeviceGetUuid_v2(same_layout<CUuuid*>(&p->uuid), device);
  if (result == CUDA_SUCCESS) result = cu.cuDeviceTotalMem_v2(&p->totalGlobalMem, device);
  if (result == CUDA_SUCCESS) result = fill_sizes(cu, device, p);
  if (result == CUDA_SUCCESS) result = fill_basic(cu, device, p);
  if (result == CUDA_SUCCESS) result = fill_memory(cu, device, p);
  if (result == CUDA_SUCCESS) result = fill_textures(cu, device, p);
  if (result == CUDA_SUCCESS) result = fill_surfaces(cu, device, p);
  return result;
}

}  // namespace

SLUICE_CUDART_FORM(13, cudaGetDeviceProperties)(cudaDeviceProp* properties, int device) {
  if (properties == nullptr) return record(cudaErrorInvalidValue);
  return with_device(device, [&](const DriverTable& cu, CUdevice handle) {
    return fill_properties(cu, handle, properties);
  });
}

// The first device that has at least what is asked for, else the one with the newest architecture.
SLUICE_CUDART_API cudaError_t cudaChooseDevice(int* device, const cudaDeviceProp* wanted) {
  if (device == nullptr || wanted == nullptr) return record(cudaErrorInvalidValue);
  return with_driver([&](const DriverTable& cu) {
    int newest = -1;
    for (int i = 0; i < runtime().device_count(); ++i) {
      CUdevice handle = 0;
      cudaDeviceProp p;
      if (cudaError_t error = runtime().device(i, &handle); error != cudaSuccess) return error;
      if (CUresult result = fill_properties(cu, handle, &p); result != CUDA_SUCCESS)
        return to_runtime(result);
      const int capability = p.major * 1000 + p.minor;
      if (capability >= wanted->major * 1000 + wanted->minor &&
          p.totalGlobalMem >= wanted->totalGlobalMem) {
        *device = i;
        return cudaSuccess;
      }
      if (capability > newest) {
        newest = capability;
        *device = i;
      }
    }
    return cudaSuccess;
  });
}
