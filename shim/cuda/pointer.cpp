// Questions about addresses (row memory), answered from the address map.
#include "shim/api.h"

#include <cstring>

using namespace sluice;
using namespace sluice::shim;

namespace {

template <class T>
CUresult give(void* out, T value) {
  std::memcpy(out, &value, sizeof value);
  return CUDA_SUCCESS;
}

CUresult device_attribute(void* out, CUpointer_attribute attribute, const DeviceRange& range,
                          CUdeviceptr address) {
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      return give(out, range.context != nullptr ? range.context->handle : nullptr);
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      return give(out, CU_MEMORYTYPE_DEVICE);
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      return give(out, address);
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      return range.is_managed ? give(out, address) : CUDA_ERROR_INVALID_VALUE;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
      return give(out, int{0});
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      return give(out, static_cast<unsigned long long>(range.buffer_id));
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      return give(out, int{range.is_managed});
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      return give(out, range.context != nullptr ? range.context->device : range.device);
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      return give(out, int{0});
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      return give(out, range.base);
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      return give(out, range.bytes);
    case CU_POINTER_ATTRIBUTE_MAPPED:
      return give(out, int{1});
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
      return give(out, 0ull);
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
      return give(out, int{0});
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      return give(out, CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE);
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      return give(out, range.pool);
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

/// The device knows allocations by their own address, registered memory by another one, which it
/// gets when somebody asks for it.
CUresult device_pointer_of(void* out, const HostRange& range, CUdeviceptr address) {
  if (!range.is_registered) return give(out, address);
  if (current_context() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (const CUresult failed =
          session().shadows().create(reinterpret_cast<void*>(range.base), range.bytes, false))
    return failed;
  return give(out, session().shadows().device_address(reinterpret_cast<const void*>(address)));
}

CUresult host_attribute(void* out, CUpointer_attribute attribute, const HostRange& range,
                        CUdeviceptr address) {
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      return give(out, current_context() != nullptr ? current_context()->handle : nullptr);
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      return give(out, CU_MEMORYTYPE_HOST);
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      return give(out, address);
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      return device_pointer_of(out, range, address);
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
      return give(out, int{0});
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      return give(out, static_cast<unsigned long long>(range.buffer_id));
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      return give(out, int{0});
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      return give(out, current_context() != nullptr ? current_context()->device : 0);
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      return give(out, static_cast<CUdeviceptr>(range.base));
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      return give(out, range.bytes);
    case CU_POINTER_ATTRIBUTE_MAPPED:
      return give(out, int{1});
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult attribute_of(void* out, CUpointer_attribute attribute, CUdeviceptr address) {
  if (const auto range = session().addresses().device(address))
    return device_attribute(out, attribute, *range, address);
  if (const auto range = session().addresses().host(reinterpret_cast<const void*>(address)))
    return host_attribute(out, attribute, *range, address);
  // What registered memory is to the device.
  if (const void* host = session().shadows().host_address(address)) {
    if (const auto range = session().addresses().host(host))
      return host_attribute(out, attribute, *range, reinterpret_cast<CUdeviceptr>(host));
  }
  return CUDA_ERROR_INVALID_VALUE;
}

std::size_t attribute_bytes(CUpointer_attribute attribute) {
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_P2P_TOKENS:
      return sizeof(CUDA_POINTER_ATTRIBUTE_P2P_TOKENS);
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_MAPPED:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      return sizeof(int);
    default:
      return sizeof(void*);
  }
}

}  // namespace

SLUICE_API cuPointerGetAttribute(void* data, CUpointer_attribute attribute, CUdeviceptr ptr) {
  if (const CUresult refused = enter_needing(wire::Fn::cuPointerGetAttribute, wire::Needs::kInit))
    return refused;
  if (data == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return attribute_of(data, attribute, ptr);
}

SLUICE_API cuPointerGetAttributes(unsigned int numAttributes, CUpointer_attribute* attributes,
                                  void** data, CUdeviceptr ptr) {
  if (const CUresult refused = enter_needing(wire::Fn::cuPointerGetAttributes, wire::Needs::kInit))
    return refused;
  if (numAttributes == 0 || attributes == nullptr || data == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < numAttributes; ++i) {
    if (data[i] == nullptr) return CUDA_ERROR_INVALID_VALUE;
    // "If the ptr was not allocated by, mapped by, or registered with a CUcontext", the values are
    // zero; an ordinal that is none is CU_DEVICE_INVALID.
    if (attribute_of(data[i], attributes[i], ptr) == CUDA_SUCCESS) continue;
    std::memset(data[i], 0, attribute_bytes(attributes[i]));
    if (attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL) give(data[i], CU_DEVICE_INVALID);
  }
  return CUDA_SUCCESS;
}
