// Access between devices: a session's devices do not reach each other's memory yet, and say so.
#include "shim/api.h"

using namespace sluice;
using namespace sluice::shim;

namespace {

CUresult enter_devices(wire::Fn fn, CUdevice one, CUdevice other) {
  if (const CUresult refused = enter_needing(fn, wire::Needs::kInit)) return refused;
  const Devices& devices = session().devices();
  return devices.has(one) && devices.has(other) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

}  // namespace

SLUICE_API cuDeviceCanAccessPeer(int* canAccessPeer, CUdevice dev, CUdevice peerDev) {
  if (const CUresult refused = enter_devices(wire::Fn::cuDeviceCanAccessPeer, dev, peerDev))
    return refused;
  if (canAccessPeer == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *canAccessPeer = 0;
  return CUDA_SUCCESS;
}

SLUICE_API cuDeviceGetP2PAttribute(int* value, CUdevice_P2PAttribute attrib, CUdevice srcDevice,
                                   CUdevice dstDevice) {
  if (const CUresult refused =
          enter_devices(wire::Fn::cuDeviceGetP2PAttribute, srcDevice, dstDevice))
    return refused;
  if (srcDevice == dstDevice) return CUDA_ERROR_INVALID_DEVICE;
  if (value == nullptr || attrib < CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK ||
      attrib > CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED)
    return CUDA_ERROR_INVALID_VALUE;
  *value = 0;
  return CUDA_SUCCESS;
}
