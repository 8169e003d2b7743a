// What devices can do with each other, and what a pointer is.
#include "shim/cudart/older/layouts.h"
#include "shim/cudart/runtime.h"

using namespace sluice::cudart;
using sluice::DriverTable;

SLUICE_CUDART_API cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  if (can == nullptr) return record(cudaErrorInvalidValue);
  return with_device(device, [&](const DriverTable& cu, CUdevice handle) {
    CUdevice other = 0;
    cudaError_t error = runtime().device(peer, &other);
    return error == cudaSuccess ? to_runtime(cu.cuDeviceCanAccessPeer(can, handle, other)) : error;
  });
}

SLUICE_CUDART_API cudaError_t cudaDeviceGetP2PAttribute(int* value, cudaDeviceP2PAttr attribute,
                                                        int device, int peer) {
  if (value == nullptr) return record(cudaErrorInvalidValue);
  return with_device(device, [&](const DriverTable& cu, CUdevice handle) {
    CUdevice other = 0;
    cudaError_t error = runtime().device(peer, &other);
    if (error != cudaSuccess) return error;
    return to_runtime(cu.cuDeviceGetP2PAttribute(
        value, static_cast<CUdevice_P2PAttribute>(attribute), handle, other));
  });
}

SLUICE_CUDART_API cudaError_t
cudaDeviceGetP2PAtomicCapabilities(unsigned* capabilities, const cudaAtomicOperation* operations,
                                   unsigned count, int device, int peer) {
  return with_device(device, [&](const DriverTable& cu, CUdevice handle) {
    CUdevice other = 0;
    cudaError_t error = runtime().device(peer, &other);
    if (error != cudaSuccess) return error;
    return to_runtime(cu.cuDeviceGetP2PAtomicCapabilities(
        capabilities, same_layout<const CUatomicOperation*>(operations), count, handle, other));
  });
}

SLUICE_CUDART_API cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  return with_context([&](const DriverTable& cu) {
    CUcontext context = nullptr;
    cudaError_t error = runtime().primary(cu, peer, &context);
    return error == cudaSuccess ? to_runtime(cu.cuCtxEnablePeerAccess(context, flags)) : error;
  });
}

SLUICE_CUDART_API cudaError_t cudaDeviceDisablePeerAccess(int peer) {
  return with_context([&](const DriverTable& cu) {
    CUcontext context = nullptr;
    cudaError_t error = runtime().primary(cu, peer, &context);
    return error == cudaSuccess ? to_runtime(cu.cuCtxDisablePeerAccess(context)) : error;
  });
}

static_assert(offsetof(cudaPointerAttributes, reserved) == v12::kPointerAttributesBytes);

SLUICE_CUDART_API cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes,
                                                       const void* memory) {
  if (attributes == nullptr) return record(cudaErrorInvalidValue);
  return with_context([&](const DriverTable& cu) {
    // Field by field: CUDA 12's struct ends where `reserved` begins.
    attributes->devicePointer = nullptr;
    attributes->hostPointer = nullptr;
    unsigned type = 0;
    unsigned is_managed = 0;
    int ordinal = cudaInvalidDeviceId;
    CUpointer_attribute wanted[] = {
        CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
        CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
        CU_POINTER_ATTRIBUTE_HOST_POINTER};
    void* found[] = {&type, &is_managed, &ordinal, &attributes->devicePointer,
                     &attributes->hostPointer};
    CUresult result = cu.cuPointerGetAttributes(5, wanted, found, address(memory));
    if (result == CUDA_SUCCESS && type == 0) {  // memory that CUDA knows nothing about
      attributes->type = cudaMemoryTypeUnregistered;
      attributes->device = cudaInvalidDeviceId;
      attributes->devicePointer = nullptr;
      attributes->hostPointer = const_cast<void*>(memory);
      return result;
    }
    attributes->device = ordinal;
    attributes->type = is_managed != 0                ? cudaMemoryTypeManaged
                       : type == CU_MEMORYTYPE_DEVICE ? cudaMemoryTypeDevice
                                                      : cudaMemoryTypeHost;
    return result;
  });
}
