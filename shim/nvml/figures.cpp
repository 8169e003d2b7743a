// What changes: memory by the server's ledger, time by its measure.
#include "protocol/slice_client.h"
#include "shim/nvml/library.h"

using namespace sluice;
using namespace sluice::nvml;

SLUICE_NVML nvmlDeviceGetMemoryInfo(Device device, Memory* memory) {
  return with_figures(device, [&](const wire::SliceStatus& status, std::size_t index) -> Return {
    if (memory == nullptr) return kInvalidArgument;
    const wire::SliceDevice& one = status.devices[index];
    *memory = {one.total_bytes, wire::free_bytes(one), one.used_bytes};
    return kSuccess;
  });
}

SLUICE_NVML nvmlDeviceGetMemoryInfo_v2(Device device, MemoryV2* memory) {
  if (memory == nullptr) return kInvalidArgument;
  if (memory->version != version_of<MemoryV2>(2)) return kArgumentVersionMismatch;
  Memory now{};
  if (const Return failed = nvmlDeviceGetMemoryInfo(device, &now)) return failed;
  *memory = {memory->version, now.total, 0, now.free, now.used};
  return kSuccess;
}

SLUICE_NVML nvmlDeviceGetUtilizationRates(Device device, Utilization* utilization) {
  return with_figures(device, [&](const wire::SliceStatus& status, std::size_t index) -> Return {
    if (utilization == nullptr) return kInvalidArgument;
    // How busy the memory was nobody measures.
    *utilization = {
        wire::busy_percent(status, status.devices[index].recent_busy_us, status.recent_us), 0};
    return kSuccess;
  });
}
