// The tenant's own processes on this host: those of other hosts have numbers that mean nothing
// here. `sluice smi` shows them all.
#include "protocol/slice_client.h"
#include "shim/nvml/library.h"

#include <unistd.h>

#include <algorithm>
#include <map>
#include <string>

using namespace sluice;
using namespace sluice::nvml;

namespace {

struct Process {
  std::uint64_t memory_bytes = 0;
  unsigned percent = 0;
};

std::string own_host() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "";
}

/// Two containers may have one host's name and not each other's processes.
bool is_here(std::int32_t pid) {
  return pid > 0 && ::access(("/proc/" + std::to_string(pid)).c_str(), F_OK) == 0;
}

/// By process number.
std::map<unsigned, Process> processes_on(const wire::SliceStatus& status, std::size_t device) {
  std::map<unsigned, Process> out;
  const std::string host = own_host();
  for (const wire::SliceSession& session : status.sessions) {
    if (session.host != host || !is_here(session.pid)) continue;
    for (const wire::SliceUse& use : session.uses) {
      if (use.device != device) continue;
      Process& one = out[static_cast<unsigned>(session.pid)];
      one.memory_bytes += use.memory_bytes;
      one.percent = std::min(
          100u, one.percent + wire::busy_percent(status, use.recent_busy_us, session.recent_us));
    }
  }
  return out;
}

void fill(unsigned pid, const Process& process, ProcessInfoV1* out) {
  *out = {pid, process.memory_bytes};
}
void fill(unsigned pid, const Process& process, ProcessInfo* out) {
  *out = {pid, process.memory_bytes, kNoInstance, kNoInstance};
}

/// NVML's way to return a list: with too small an array the count says how large it must be.
template <class Info>
Return list(Device device, unsigned* count, Info* infos) {
  return with_figures(device, [&](const wire::SliceStatus& status, std::size_t index) -> Return {
    if (count == nullptr || (*count > 0 && infos == nullptr)) return kInvalidArgument;
    const auto processes = processes_on(status, index);
    const unsigned places = *count;
    *count = static_cast<unsigned>(processes.size());
    if (places < processes.size()) return kInsufficientSize;
    for (const auto& [pid, process] : processes) fill(pid, process, infos++);
    return kSuccess;
  });
}

/// Of kinds that the slice does not have.
Return list_none(Device device, unsigned* count) {
  return with_identity(device, [&](const wire::SliceDevice&) -> Return {
    if (count == nullptr) return kInvalidArgument;
    *count = 0;
    return kSuccess;
  });
}

}  // namespace

SLUICE_NVML nvmlDeviceGetComputeRunningProcesses(Device device, unsigned* count,
                                                 ProcessInfoV1* infos) {
  return list(device, count, infos);
}

SLUICE_NVML nvmlDeviceGetComputeRunningProcesses_v2(Device device, unsigned* count,
                                                    ProcessInfo* infos) {
  return list(device, count, infos);
}

SLUICE_NVML nvmlDeviceGetComputeRunningProcesses_v3(Device device, unsigned* count,
                                                    ProcessInfo* infos) {
  return list(device, count, infos);
}

#define SLUICE_NONE(name)                                   \
  SLUICE_NVML name(Device device, unsigned* count, void*) { \
    return list_none(device, count);                        \
  }

SLUICE_NONE(nvmlDeviceGetGraphicsRunningProcesses)
SLUICE_NONE(nvmlDeviceGetGraphicsRunningProcesses_v2)
SLUICE_NONE(nvmlDeviceGetGraphicsRunningProcesses_v3)
SLUICE_NONE(nvmlDeviceGetMPSComputeRunningProcesses)
SLUICE_NONE(nvmlDeviceGetMPSComputeRunningProcesses_v2)
SLUICE_NONE(nvmlDeviceGetMPSComputeRunningProcesses_v3)

SLUICE_NVML nvmlDeviceGetProcessUtilization(Device device, ProcessSample* samples, unsigned* count,
                                            unsigned long long last_seen_us) {
  return with_figures(device, [&](const wire::SliceStatus& status, std::size_t index) -> Return {
    if (count == nullptr) return kInvalidArgument;
    const auto processes = processes_on(status, index);
    if (processes.empty() || status.wall_clock_us <= last_seen_us) return kNotFound;
    const unsigned places = samples != nullptr ? *count : 0;
    *count = static_cast<unsigned>(processes.size());
    if (places < processes.size()) return kInsufficientSize;
    for (const auto& [pid, process] : processes)
      *samples++ = {pid, status.wall_clock_us, process.percent, 0, 0, 0};
    return kSuccess;
  });
}
