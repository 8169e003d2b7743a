// Devices: name, memory, attributes.
#include "softgpu/api/state.h"
#include "softgpu/exec/context.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace sluice::softgpu {
namespace {

constexpr const char* kName = "Sluice softgpu";

int compute_capability() {
  static const int value = [] {
    const char* text = std::getenv("SOFTGPU_COMPUTE_CAPABILITY");
    int major = 12;
    int minor = 1;
    if (text != nullptr && std::sscanf(text, "%d.%d", &major, &minor) != 2) major = 12, minor = 1;
    return major * 10 + minor;
  }();
  return value;
}

struct Attribute {
  int id, value;
};
// What the software GPU is; attributes that are not here but exist are 0 (= not supported).
constexpr Attribute kAttributes[] = {
    {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 2147483647},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 49152},
    {CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, 65536},
    {CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
    {CU_DEVICE_ATTRIBUTE_MAX_PITCH, 2147483647},
    {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, 65536},
    {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 1000000},
    {CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, 512},
    {CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT, 32},
    {CU_DEVICE_ATTRIBUTE_GPU_OVERLAP, 1},
    {CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 1},
    {CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 2},
    {CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
    {CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 1000000},
    {CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, 64},
    {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 1 << 20},
    {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 2048},
    {CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, 233472},
    {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, 65536},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, kSharedBytesMax},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, 32},
    {CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO, 2},
    {CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 0},
    {CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1},
    {CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 1},
    {CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, 1},
    {CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, 1},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_WIDTH, 131072},
};

}  // namespace

int device_attribute(const Device& device, CUdevice_attribute attribute, bool* is_known) {
  *is_known = attribute >= 1 && attribute < CU_DEVICE_ATTRIBUTE_MAX;
  switch (static_cast<int>(attribute)) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      return compute_capability() / 10;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
      return compute_capability() % 10;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      return static_cast<int>(worker_thread_count());
    case CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID:
      return device.ordinal;
    default:
      break;
  }
  for (const Attribute& a : kAttributes)
    if (a.id == static_cast<int>(attribute)) return a.value;
  return 0;
}

}  // namespace sluice::softgpu

using namespace sluice::softgpu;

namespace {
CUresult find_device(CUdevice ordinal, Device** out) {
  if (const CUresult bad = initialised()) return bad;
  *out = device_of(ordinal);
  return *out != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}
}  // namespace

SOFTGPU_API cuDeviceGetCount(int* count) {
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  SOFTGPU_CHECK(initialised());
  *count = static_cast<int>(state().devices.size());
  return CUDA_SUCCESS;
}

SOFTGPU_API cuDeviceGet(CUdevice* device, int ordinal) {
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Device* found = nullptr;
  SOFTGPU_CHECK(find_device(ordinal, &found));
  *device = ordinal;
  return CUDA_SUCCESS;
}

SOFTGPU_API cuDeviceGetName(char* name, int bytes, CUdevice device) {
  if (name == nullptr || bytes <= 0) return CUDA_ERROR_INVALID_VALUE;
  Device* found = nullptr;
  SOFTGPU_CHECK(find_device(device, &found));
  std::snprintf(name, static_cast<std::size_t>(bytes), "%s", kName);
  return CUDA_SUCCESS;
}

SOFTGPU_API cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice device) {
  if (uuid == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Device* found = nullptr;
  SOFTGPU_CHECK(find_device(device, &found));
  *uuid = found->uuid;
  return CUDA_SUCCESS;
}

#undef cuDeviceGetUuid
SOFTGPU_API cuDeviceGetUuid(CUuuid* uuid, CUdevice device) {
  return cuDeviceGetUuid_v2(uuid, device);
}

SOFTGPU_API cuDeviceTotalMem_v2(size_t* bytes, CUdevice device) {
  if (bytes == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Device* found = nullptr;
  SOFTGPU_CHECK(find_device(device, &found));
  *bytes = found->arena->account().capacity_bytes();
  return CUDA_SUCCESS;
}

SOFTGPU_API cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Device* found = nullptr;
  SOFTGPU_CHECK(find_device(device, &found));
  bool is_known = false;
  const int result = device_attribute(*found, attribute, &is_known);
  if (!is_known) return CUDA_ERROR_INVALID_VALUE;
  *value = result;
  return CUDA_SUCCESS;
}

SOFTGPU_API cuDeviceGetPCIBusId(char* text, int bytes, CUdevice device) {
  if (text == nullptr || bytes <= 0) return CUDA_ERROR_INVALID_VALUE;
  Device* found = nullptr;
  SOFTGPU_CHECK(find_device(device, &found));
  std::snprintf(text, static_cast<std::size_t>(bytes), "0000:01:%02X.0", found->ordinal);
  return CUDA_SUCCESS;
}

SOFTGPU_API cuDeviceGetByPCIBusId(CUdevice* device, const char* text) {
  if (device == nullptr || text == nullptr) return CUDA_ERROR_INVALID_VALUE;
  SOFTGPU_CHECK(initialised());
  unsigned domain = 0, bus = 0, number = 0, function = 0;
  if (std::sscanf(text, "%x:%x:%x.%x", &domain, &bus, &number, &function) < 3)
    return CUDA_ERROR_INVALID_VALUE;
  const auto& devices = state().devices;
  for (std::size_t i = 0; i < devices.size(); ++i)
    if (domain == 0 && bus == 1 && static_cast<int>(number) == devices[i]->ordinal) {
      *device = static_cast<CUdevice>(i);
      return CUDA_SUCCESS;
    }
  return CUDA_ERROR_INVALID_DEVICE;
}

SOFTGPU_API cuDeviceCanAccessPeer(int* can, CUdevice device, CUdevice peer) {
  if (can == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Device* found = nullptr;
  SOFTGPU_CHECK(find_device(device, &found));
  SOFTGPU_CHECK(find_device(peer, &found));
  *can = 0;
  return CUDA_SUCCESS;
}

SOFTGPU_API cuDeviceGetP2PAttribute(int* value, CUdevice_P2PAttribute, CUdevice source,
                                    CUdevice target) {
  return cuDeviceCanAccessPeer(value, source, target);
}
