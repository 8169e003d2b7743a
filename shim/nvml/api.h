// What of NVML's C interface our libnvidia-ml.so.1 answers: numbers and structs as the public NVML
// API reference describes them, under names of our own (NVIDIA's nvml.h is in no toolkit that we
// build with). tests/nvml/layouts_check.cpp compares them with the real header in `tools/dev test
// --full`. functions.def has the names of all functions.
#pragma once

#include <cstdint>

namespace sluice::nvml {

/// nvmlReturn_t.
enum Return : int {
  kSuccess = 0,
  kUninitialized = 1,
  kInvalidArgument = 2,
  kNotSupported = 3,
  kNoPermission = 4,
  kNotFound = 6,
  kInsufficientSize = 7,
  kDriverNotLoaded = 9,
  kFunctionNotFound = 13,
  kGpuIsLost = 15,
  kLibRmVersionMismatch = 18,
  kMemory = 20,
  kArgumentVersionMismatch = 25,
  kUnknown = 999,
};

/// nvmlDevice_t: opaque for callers.
using Device = struct DeviceSlot*;

inline constexpr unsigned kBusIdBytes = 32;        ///< NVML_DEVICE_PCI_BUS_ID_BUFFER_SIZE
inline constexpr unsigned kBusIdLegacyBytes = 16;  ///< NVML_DEVICE_PCI_BUS_ID_BUFFER_V2_SIZE
inline constexpr unsigned kInitNoGpus = 1, kInitNoAttach = 2;

/// nvmlPciInfo_t; entries before _v3 know less of it (identity.cpp).
struct PciInfo {
  char bus_id_legacy[kBusIdLegacyBytes];
  unsigned domain, bus, device;
  unsigned pci_device_id, pci_subsystem_id;
  char bus_id[kBusIdBytes];
};

/// nvmlPciInfoExt_v1_t.
struct PciInfoExt {
  unsigned version;
  unsigned domain, bus, device;
  unsigned pci_device_id, pci_subsystem_id;
  unsigned base_class, sub_class;
  char bus_id[kBusIdBytes];
};

/// nvmlMemory_t.
struct Memory {
  unsigned long long total, free, used;
};
/// nvmlMemory_v2_t.
struct MemoryV2 {
  unsigned version;
  unsigned long long total, reserved, free, used;
};

/// nvmlUtilization_t, in percent.
struct Utilization {
  unsigned gpu, memory;
};

/// nvmlProcessInfo_v1_t.
struct ProcessInfoV1 {
  unsigned pid;
  unsigned long long used_bytes;
};
/// nvmlProcessInfo_v2_t, and nvmlProcessInfo_t of _v3.
struct ProcessInfo {
  unsigned pid;
  unsigned long long used_bytes;
  unsigned gpu_instance, compute_instance;
};
inline constexpr unsigned kNoInstance = ~0u;

/// nvmlProcessUtilizationSample_t.
struct ProcessSample {
  unsigned pid;
  unsigned long long time_us;
  unsigned sm, memory, encoder, decoder;  ///< in percent
};

/// nvmlUUID_v1_t.
struct Uuid {
  unsigned version;
  unsigned type;
  union {
    char text[41];
    unsigned char bytes[16];
  } value;
};
inline constexpr unsigned kUuidAscii = 1, kUuidBinary = 2;

/// What a caller writes into `version` of a struct that has one.
template <class Struct>
constexpr unsigned version_of(unsigned number) {
  return static_cast<unsigned>(sizeof(Struct)) | number << 24;
}

// nvmlClockType_t, nvmlEnableState_t, nvmlBrandType_t, nvmlDeviceArchitecture_t
enum ClockType : int { kClockGraphics = 0, kClockSm = 1, kClockMemory = 2, kClockVideo = 3 };
enum EnableState : int { kDisabled = 0, kEnabled = 1 };
inline constexpr int kBrandUnknown = 0;
inline constexpr unsigned kArchitectureUnknown = ~0u;

}  // namespace sluice::nvml

/// An exported function. The C names are NVML's.
#define SLUICE_NVML extern "C" __attribute__((visibility("default"))) sluice::nvml::Return
