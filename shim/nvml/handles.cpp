// From a device's number, UUID or PCI address to its handle, and back.
#include "common/gpu_uuid.h"
#include "shim/nvml/library.h"
#include "shim/nvml/pci.h"

#include <cstring>
#include <string>

using namespace sluice;
using namespace sluice::nvml;

namespace {

/// The first device that `is_it` says yes to.
template <class Predicate>
Return find(Device* out, Predicate is_it) {
  return guarded([&]() -> Return {
    if (out == nullptr) return kInvalidArgument;
    Snapshot status;
    if (const Return failed = Library::of_process().identity(&status)) return failed;
    for (std::size_t i = 0; i < status->devices.size(); ++i) {
      if (!is_it(status->devices[i])) continue;
      *out = Library::handle_of(i);
      return kSuccess;
    }
    return kNotFound;
  });
}

}  // namespace

SLUICE_NVML nvmlDeviceGetCount_v2(unsigned* count) {
  return guarded([&]() -> Return {
    if (count == nullptr) return kInvalidArgument;
    Snapshot status;
    if (const Return failed = Library::of_process().identity(&status)) return failed;
    *count = static_cast<unsigned>(status->devices.size());
    return kSuccess;
  });
}

SLUICE_NVML nvmlDeviceGetCount(unsigned* count) {
  return nvmlDeviceGetCount_v2(count);
}

SLUICE_NVML nvmlDeviceGetHandleByIndex_v2(unsigned index, Device* device) {
  return guarded([&]() -> Return {
    if (device == nullptr) return kInvalidArgument;
    Snapshot status;
    if (const Return failed = Library::of_process().identity(&status)) return failed;
    if (index >= status->devices.size()) return kInvalidArgument;
    *device = Library::handle_of(index);
    return kSuccess;
  });
}

SLUICE_NVML nvmlDeviceGetHandleByIndex(unsigned index, Device* device) {
  return nvmlDeviceGetHandleByIndex_v2(index, device);
}

SLUICE_NVML nvmlDeviceGetHandleByUUID(const char* uuid, Device* device) {
  if (uuid == nullptr) return kInvalidArgument;
  return find(device,
              [&](const wire::SliceDevice& one) { return gpu_uuid_text(one.uuid) == uuid; });
}

SLUICE_NVML nvmlDeviceGetHandleByUUIDV(const Uuid* uuid, Device* device) {
  if (uuid == nullptr) return kInvalidArgument;
  if (uuid->version != version_of<Uuid>(1)) return kArgumentVersionMismatch;
  const auto& value = uuid->value;
  if (uuid->type == kUuidAscii) {
    const std::string text(value.text, ::strnlen(value.text, sizeof value.text));
    return nvmlDeviceGetHandleByUUID(text.c_str(), device);
  }
  if (uuid->type != kUuidBinary) return kInvalidArgument;
  return find(device, [&](const wire::SliceDevice& one) {
    return std::memcmp(one.uuid.data(), value.bytes, sizeof value.bytes) == 0;
  });
}

SLUICE_NVML nvmlDeviceGetHandleByPciBusId_v2(const char* bus_id, Device* device) {
  const auto wanted = bus_id != nullptr ? parse_pci_address(bus_id) : std::nullopt;
  if (!wanted) return kInvalidArgument;
  return find(device, [&](const wire::SliceDevice& one) {
    return parse_pci_address(one.pci_bus_id) == wanted;
  });
}

SLUICE_NVML nvmlDeviceGetHandleByPciBusId(const char* bus_id, Device* device) {
  return nvmlDeviceGetHandleByPciBusId_v2(bus_id, device);
}

SLUICE_NVML nvmlDeviceGetIndex(Device device, unsigned* index) {
  return with_identity(device, [&](const wire::SliceDevice&) -> Return {
    if (index == nullptr) return kInvalidArgument;
    *index = static_cast<unsigned>(*Library::index_of(device));
    return kSuccess;
  });
}
