// Devices: everything comes from the records of the handshake.
#include "shim/api.h"

#include <algorithm>
#include <cstring>
#include <string>

using namespace sluice;
using namespace sluice::shim;

namespace {

CUresult enter_device(wire::Fn fn, CUdevice dev) {
  if (const CUresult refused = enter_needing(fn, wire::Needs::kInit)) return refused;
  return session().devices().has(dev) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

/// At most `len` bytes with the final zero.
CUresult copy_text(const std::string& text, char* out, int len) {
  if (out == nullptr || len <= 0) return CUDA_ERROR_INVALID_VALUE;
  const std::size_t n = std::min(text.size(), static_cast<std::size_t>(len) - 1);
  std::memcpy(out, text.data(), n);
  out[n] = '\0';
  return CUDA_SUCCESS;
}

int attribute_or_zero(CUdevice dev, CUdevice_attribute id) {
  return session().devices().attribute(dev, id).value_or(0);
}

}  // namespace

SLUICE_API cuDeviceGet(CUdevice* device, int ordinal) {
  if (const CUresult refused = enter_needing(wire::Fn::cuDeviceGet, wire::Needs::kInit))
    return refused;
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!session().devices().has(ordinal)) return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}

SLUICE_API cuDeviceGetCount(int* count) {
  if (const CUresult refused = enter_needing(wire::Fn::cuDeviceGetCount, wire::Needs::kInit))
    return refused;
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *count = session().devices().count();
  return CUDA_SUCCESS;
}

SLUICE_API cuDeviceGetName(char* name, int len, CUdevice dev) {
  if (const CUresult refused = enter_device(wire::Fn::cuDeviceGetName, dev)) return refused;
  return copy_text(session().devices().record(dev).name, name, len);
}

SLUICE_API cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice dev) {
  if (const CUresult refused = enter_device(wire::Fn::cuDeviceGetUuid_v2, dev)) return refused;
  if (uuid == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto& bytes = session().devices().record(dev).uuid;
  static_assert(sizeof uuid->bytes == sizeof bytes);
  std::memcpy(uuid->bytes, bytes.data(), sizeof uuid->bytes);
  return CUDA_SUCCESS;
}

SLUICE_API cuDeviceTotalMem_v2(size_t* bytes, CUdevice dev) {
  if (const CUresult refused = enter_device(wire::Fn::cuDeviceTotalMem_v2, dev)) return refused;
  if (bytes == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *bytes = session().devices().record(dev).total_bytes;
  return CUDA_SUCCESS;
}

SLUICE_API cuDeviceGetAttribute(int* pi, CUdevice_attribute attrib, CUdevice dev) {
  if (const CUresult refused = enter_device(wire::Fn::cuDeviceGetAttribute, dev)) return refused;
  if (pi == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto value = session().devices().attribute(dev, attrib);
  if (!value) return CUDA_ERROR_INVALID_VALUE;
  *pi = *value;
  return CUDA_SUCCESS;
}

SLUICE_API cuDeviceGetPCIBusId(char* pciBusId, int len, CUdevice dev) {
  if (const CUresult refused = enter_device(wire::Fn::cuDeviceGetPCIBusId, dev)) return refused;
  return copy_text(session().devices().record(dev).pci_bus_id, pciBusId, len);
}

SLUICE_API cuDeviceGetByPCIBusId(CUdevice* dev, const char* pciBusId) {
  if (const CUresult refused = enter_needing(wire::Fn::cuDeviceGetByPCIBusId, wire::Needs::kInit))
    return refused;
  if (dev == nullptr || pciBusId == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Devices& devices = session().devices();
  for (int i = 0; i < devices.count(); ++i) {
    const std::string& known = devices.record(i).pci_bus_id;
    // [domain]:[bus]:[device].[function], of which the domain and the function may be missing.
    const std::string wanted = pciBusId;
    if (!wanted.empty() &&
        (strcasecmp(known.c_str(), pciBusId) == 0 ||
         (known.size() > wanted.size() && wanted.find(':') == wanted.rfind(':') &&
          strncasecmp(known.c_str() + known.find(':') + 1, pciBusId, wanted.size()) == 0))) {
      *dev = i;
      return CUDA_SUCCESS;
    }
  }
  return CUDA_ERROR_INVALID_DEVICE;
}

SLUICE_API cuDeviceComputeCapability(int* major, int* minor, CUdevice dev) {
  if (const CUresult refused = enter_device(wire::Fn::cuDeviceComputeCapability, dev))
    return refused;
  if (major == nullptr || minor == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *major = attribute_or_zero(dev, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  *minor = attribute_or_zero(dev, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  return CUDA_SUCCESS;
}

SLUICE_API cuDeviceGetProperties(CUdevprop* prop, CUdevice dev) {
  if (const CUresult refused = enter_device(wire::Fn::cuDeviceGetProperties, dev)) return refused;
  if (prop == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *prop = CUdevprop{};
  prop->maxThreadsPerBlock = attribute_or_zero(dev, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  for (int axis = 0; axis < 3; ++axis) {
    prop->maxThreadsDim[axis] = attribute_or_zero(
        dev, static_cast<CUdevice_attribute>(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X + axis));
    prop->maxGridSize[axis] = attribute_or_zero(
        dev, static_cast<CUdevice_attribute>(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X + axis));
  }
  prop->sharedMemPerBlock = attribute_or_zero(dev, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
  prop->totalConstantMemory = attribute_or_zero(dev, CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY);
  prop->SIMDWidth = attribute_or_zero(dev, CU_DEVICE_ATTRIBUTE_WARP_SIZE);
  prop->memPitch = attribute_or_zero(dev, CU_DEVICE_ATTRIBUTE_MAX_PITCH);
  prop->regsPerBlock = attribute_or_zero(dev, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK);
  prop->clockRate = attribute_or_zero(dev, CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
  prop->textureAlign = attribute_or_zero(dev, CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT);
  return CUDA_SUCCESS;
}

SLUICE_API cuDeviceGetLuid(char* luid, unsigned int* deviceNodeMask, CUdevice dev) {
  if (const CUresult refused = enter_device(wire::Fn::cuDeviceGetLuid, dev)) return refused;
  if (luid == nullptr || deviceNodeMask == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return CUDA_ERROR_NOT_SUPPORTED;  // an identifier of Windows
}
