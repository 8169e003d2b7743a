// Compiled by fetch_clients.sh with NVIDIA's nvml.h: what shim/nvml/api.h says is true. Nothing
// runs.
#include "shim/nvml/api.h"

#include <nvml.h>

#include <cstddef>

namespace ours = sluice::nvml;

#define SLUICE_NUMBER(our_name, name) \
  static_assert(static_cast<unsigned>(ours::our_name) == static_cast<unsigned>(name))
SLUICE_NUMBER(kSuccess, NVML_SUCCESS);
SLUICE_NUMBER(kUninitialized, NVML_ERROR_UNINITIALIZED);
SLUICE_NUMBER(kInvalidArgument, NVML_ERROR_INVALID_ARGUMENT);
SLUICE_NUMBER(kNotSupported, NVML_ERROR_NOT_SUPPORTED);
SLUICE_NUMBER(kNoPermission, NVML_ERROR_NO_PERMISSION);
SLUICE_NUMBER(kNotFound, NVML_ERROR_NOT_FOUND);
SLUICE_NUMBER(kInsufficientSize, NVML_ERROR_INSUFFICIENT_SIZE);
SLUICE_NUMBER(kDriverNotLoaded, NVML_ERROR_DRIVER_NOT_LOADED);
SLUICE_NUMBER(kFunctionNotFound, NVML_ERROR_FUNCTION_NOT_FOUND);
SLUICE_NUMBER(kGpuIsLost, NVML_ERROR_GPU_IS_LOST);
SLUICE_NUMBER(kLibRmVersionMismatch, NVML_ERROR_LIB_RM_VERSION_MISMATCH);
SLUICE_NUMBER(kMemory, NVML_ERROR_MEMORY);
SLUICE_NUMBER(kArgumentVersionMismatch, NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
SLUICE_NUMBER(kUnknown, NVML_ERROR_UNKNOWN);
SLUICE_NUMBER(kBusIdBytes, NVML_DEVICE_PCI_BUS_ID_BUFFER_SIZE);
SLUICE_NUMBER(kBusIdLegacyBytes, NVML_DEVICE_PCI_BUS_ID_BUFFER_V2_SIZE);
SLUICE_NUMBER(kInitNoGpus, NVML_INIT_FLAG_NO_GPUS);
SLUICE_NUMBER(kInitNoAttach, NVML_INIT_FLAG_NO_ATTACH);
SLUICE_NUMBER(kClockGraphics, NVML_CLOCK_GRAPHICS);
SLUICE_NUMBER(kClockSm, NVML_CLOCK_SM);
SLUICE_NUMBER(kClockMemory, NVML_CLOCK_MEM);
SLUICE_NUMBER(kClockVideo, NVML_CLOCK_VIDEO);
SLUICE_NUMBER(kDisabled, NVML_FEATURE_DISABLED);
SLUICE_NUMBER(kEnabled, NVML_FEATURE_ENABLED);
SLUICE_NUMBER(kBrandUnknown, NVML_BRAND_UNKNOWN);
SLUICE_NUMBER(kArchitectureUnknown, NVML_DEVICE_ARCH_UNKNOWN);

#define SLUICE_FIELD(ours_type, our_field, type, field)                         \
  static_assert(offsetof(ours::ours_type, our_field) == offsetof(type, field)); \
  static_assert(sizeof(ours::ours_type::our_field) == sizeof(type::field))
static_assert(sizeof(ours::PciInfo) == sizeof(nvmlPciInfo_t));
SLUICE_FIELD(PciInfo, bus_id_legacy, nvmlPciInfo_t, busIdLegacy);
SLUICE_FIELD(PciInfo, domain, nvmlPciInfo_t, domain);
SLUICE_FIELD(PciInfo, device, nvmlPciInfo_t, device);
SLUICE_FIELD(PciInfo, pci_subsystem_id, nvmlPciInfo_t, pciSubSystemId);
SLUICE_FIELD(PciInfo, bus_id, nvmlPciInfo_t, busId);
static_assert(sizeof(ours::Memory) == sizeof(nvmlMemory_t));
SLUICE_FIELD(Memory, total, nvmlMemory_t, total);
SLUICE_FIELD(Memory, free, nvmlMemory_t, free);
SLUICE_FIELD(Memory, used, nvmlMemory_t, used);
static_assert(sizeof(ours::MemoryV2) == sizeof(nvmlMemory_v2_t));
SLUICE_FIELD(MemoryV2, reserved, nvmlMemory_v2_t, reserved);
SLUICE_FIELD(MemoryV2, used, nvmlMemory_v2_t, used);
static_assert(ours::version_of<ours::MemoryV2>(2) == nvmlMemory_v2);
static_assert(sizeof(ours::Utilization) == sizeof(nvmlUtilization_t));
SLUICE_FIELD(Utilization, gpu, nvmlUtilization_t, gpu);
static_assert(sizeof(ours::ProcessInfoV1) == sizeof(nvmlProcessInfo_v1_t));
static_assert(sizeof(ours::ProcessInfo) == sizeof(nvmlProcessInfo_v2_t));
static_assert(sizeof(ours::ProcessInfo) == sizeof(nvmlProcessInfo_t));
SLUICE_FIELD(ProcessInfo, used_bytes, nvmlProcessInfo_t, usedGpuMemory);
SLUICE_FIELD(ProcessInfo, gpu_instance, nvmlProcessInfo_t, gpuInstanceId);
SLUICE_FIELD(ProcessInfo, compute_instance, nvmlProcessInfo_t, computeInstanceId);
static_assert(sizeof(ours::ProcessSample) == sizeof(nvmlProcessUtilizationSample_t));
SLUICE_FIELD(ProcessSample, time_us, nvmlProcessUtilizationSample_t, timeStamp);
SLUICE_FIELD(ProcessSample, sm, nvmlProcessUtilizationSample_t, smUtil);
SLUICE_FIELD(ProcessSample, decoder, nvmlProcessUtilizationSample_t, decUtil);

// Of newer headers than Debian's.
#ifdef nvmlPciInfoExt_v1
static_assert(ours::version_of<ours::PciInfoExt>(1) == nvmlPciInfoExt_v1);
SLUICE_FIELD(PciInfoExt, base_class, nvmlPciInfoExt_v1_t, baseClass);
SLUICE_FIELD(PciInfoExt, bus_id, nvmlPciInfoExt_v1_t, busId);
#endif
#ifdef nvmlUUID_v1
static_assert(ours::version_of<ours::Uuid>(1) == nvmlUUID_v1);
SLUICE_FIELD(Uuid, value, nvmlUUID_v1_t, value);
SLUICE_NUMBER(kUuidAscii, NVML_UUID_TYPE_ASCII);
SLUICE_NUMBER(kUuidBinary, NVML_UUID_TYPE_BINARY);
#endif
