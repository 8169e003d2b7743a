// What does not change about a device: everything is the driver's answer on the server, the same
// that the CUDA driver API gives.
#include "common/gpu_uuid.h"
#include "protocol/slice_client.h"
#include "shim/nvml/library.h"
#include "shim/nvml/pci.h"
#include "shim/nvml/text.h"

#include <cuda.h>

#include <cstddef>
#include <cstdio>
#include <cstring>

using namespace sluice;
using namespace sluice::nvml;

namespace {

/// An answer that is one of the driver's attributes; without it, or with a value that says nothing,
/// NOT_SUPPORTED.
template <class Out>
Return from_attribute(Device device, CUdevice_attribute attribute, Out* out, int divisor = 1) {
  return with_identity(device, [&](const wire::SliceDevice& one) -> Return {
    if (out == nullptr) return kInvalidArgument;
    const auto value = wire::attribute_of(one, attribute);
    if (!value || *value < divisor - 1) return kNotSupported;
    *out = static_cast<Out>(*value / divisor);
    return kSuccess;
  });
}

Return pci_info(const wire::SliceDevice& device, PciInfo* out) {
  const auto address = parse_pci_address(device.pci_bus_id);
  if (!address) return kNotSupported;
  *out = {};
  out->domain = address->domain;
  out->bus = address->bus;
  out->device = address->device;
  std::snprintf(out->bus_id_legacy, sizeof out->bus_id_legacy, "%04X:%02X:%02X.0",
                address->domain & 0xffff, address->bus & 0xff, address->device & 0xff);
  std::snprintf(out->bus_id, sizeof out->bus_id, "%08X:%02X:%02X.0", address->domain, address->bus,
                address->device);
  return kSuccess;
}

/// Older entries have a shorter struct: the first `bytes` of today's.
Return pci_info(Device device, void* out, std::size_t bytes) {
  return with_identity(device, [&](const wire::SliceDevice& one) -> Return {
    if (out == nullptr) return kInvalidArgument;
    PciInfo info;
    if (const Return failed = pci_info(one, &info)) return failed;
    std::memcpy(out, &info, bytes);
    return kSuccess;
  });
}

/// nvmlDeviceArchitecture_t of a compute capability.
unsigned architecture_of(int major, int minor) {
  if (major >= 10) return major <= 12 ? 10 : kArchitectureUnknown;
  if (major == 9) return 9;
  if (major == 8) return minor == 9 ? 8 : 7;
  if (major == 7) return minor >= 5 ? 6 : 5;
  return major >= 5 ? static_cast<unsigned>(major) - 2 : (major == 3 ? 2 : kArchitectureUnknown);
}

Return no(Device device, EnableState* out) {
  return with_identity(device, [&](const wire::SliceDevice&) -> Return {
    if (out == nullptr) return kInvalidArgument;
    *out = kDisabled;
    return kSuccess;
  });
}

Return zero(Device device, unsigned* out) {
  return with_identity(device, [&](const wire::SliceDevice&) -> Return {
    if (out == nullptr) return kInvalidArgument;
    *out = 0;
    return kSuccess;
  });
}

}  // namespace

SLUICE_NVML nvmlDeviceGetName(Device device, char* name, unsigned length) {
  return with_identity(
      device, [&](const wire::SliceDevice& one) { return copy_text(one.name, name, length); });
}

SLUICE_NVML nvmlDeviceGetUUID(Device device, char* uuid, unsigned length) {
  return with_identity(device, [&](const wire::SliceDevice& one) {
    return copy_text(gpu_uuid_text(one.uuid), uuid, length);
  });
}

SLUICE_NVML nvmlDeviceGetBrand(Device device, int* brand) {
  return with_identity(device, [&](const wire::SliceDevice&) -> Return {
    if (brand == nullptr) return kInvalidArgument;
    *brand = kBrandUnknown;
    return kSuccess;
  });
}

SLUICE_NVML nvmlDeviceGetCudaComputeCapability(Device device, int* major, int* minor) {
  if (const Return failed =
          from_attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, major))
    return failed;
  return from_attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, minor);
}

SLUICE_NVML nvmlDeviceGetArchitecture(Device device, unsigned* architecture) {
  int major = 0, minor = 0;
  if (const Return failed = nvmlDeviceGetCudaComputeCapability(device, &major, &minor))
    return failed;
  if (architecture == nullptr) return kInvalidArgument;
  *architecture = architecture_of(major, minor);
  return kSuccess;
}

SLUICE_NVML nvmlDeviceGetPciInfo(Device device, void* pci) {
  return pci_info(device, pci, offsetof(PciInfo, pci_subsystem_id));
}

SLUICE_NVML nvmlDeviceGetPciInfo_v2(Device device, void* pci) {
  return pci_info(device, pci, offsetof(PciInfo, bus_id));
}

SLUICE_NVML nvmlDeviceGetPciInfo_v3(Device device, PciInfo* pci) {
  return pci_info(device, pci, sizeof *pci);
}

SLUICE_NVML nvmlDeviceGetPciInfoExt(Device device, PciInfoExt* pci) {
  if (pci == nullptr) return kInvalidArgument;
  if (pci->version != version_of<PciInfoExt>(1)) return kArgumentVersionMismatch;
  PciInfo info{};
  if (const Return failed = nvmlDeviceGetPciInfo_v3(device, &info)) return failed;
  const unsigned version = pci->version;
  *pci = {};
  pci->version = version;
  pci->domain = info.domain;
  pci->bus = info.bus;
  pci->device = info.device;
  std::memcpy(pci->bus_id, info.bus_id, sizeof pci->bus_id);
  return kSuccess;
}

SLUICE_NVML nvmlDeviceGetMaxClockInfo(Device device, ClockType type, unsigned* mhz) {
  constexpr int kKhzPerMhz = 1000;
  switch (static_cast<int>(type)) {
    case kClockGraphics:
    case kClockSm:
      return from_attribute(device, CU_DEVICE_ATTRIBUTE_CLOCK_RATE, mhz, kKhzPerMhz);
    case kClockMemory:
      return from_attribute(device, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, mhz, kKhzPerMhz);
    case kClockVideo:
      return kNotSupported;
    default:
      return kInvalidArgument;
  }
}

SLUICE_NVML nvmlDeviceGetMemoryBusWidth(Device device, unsigned* bits) {
  return from_attribute(device, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, bits);
}

SLUICE_NVML nvmlDeviceGetComputeMode(Device device, int* mode) {
  return from_attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, mode);
}

SLUICE_NVML nvmlDeviceGetEccMode(Device device, EnableState* current, EnableState* pending) {
  if (pending == nullptr) return kInvalidArgument;
  const Return outcome = from_attribute(device, CU_DEVICE_ATTRIBUTE_ECC_ENABLED, current);
  if (outcome == kSuccess) *pending = *current;
  return outcome;
}

SLUICE_NVML nvmlDeviceGetDisplayMode(Device device, EnableState* is_connected) {
  return no(device, is_connected);
}

SLUICE_NVML nvmlDeviceGetDisplayActive(Device device, EnableState* is_active) {
  return no(device, is_active);
}

SLUICE_NVML nvmlDeviceIsMigDeviceHandle(Device device, unsigned* is_mig) {
  return zero(device, is_mig);
}

SLUICE_NVML nvmlDeviceGetMaxMigDeviceCount(Device device, unsigned* count) {
  return zero(device, count);
}
