#include "server/nvml/gpu_processes.h"

#include "common/format.h"
#include "common/gpu_uuid.h"

#include <dlfcn.h>

#include <vector>

namespace sluice::server {
namespace {

// nvmlReturn_t
constexpr int kSuccess = 0;
constexpr int kInsufficientSize = 7;
/// NVML_VALUE_NOT_AVAILABLE.
constexpr unsigned long long kUnknownBytes = ~0ull;
/// Far more than a device runs: NVML's count is not believed beyond it.
constexpr unsigned kProcessesMax = 65536;
/// Processes come between the question how many there are and the question which.
constexpr unsigned kRoomForNew = 16;
constexpr int kAttempts = 4;

/// nvmlProcessInfo_t, as the function with _v3 gives it.
struct ProcessInfo {
  unsigned pid;
  unsigned long long used_bytes;
  unsigned gpu_instance, compute_instance;
};

}  // namespace

struct GpuProcesses::Functions {
  int (*init)() = nullptr;
  int (*device_by_uuid)(const char* uuid, void** device) = nullptr;
  int (*processes)(void* device, unsigned* count, ProcessInfo* infos) = nullptr;
};

Result<std::unique_ptr<GpuProcesses>> GpuProcesses::open(const std::string& path) {
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    return fail(ErrorCode::kNotFound, path + " cannot be loaded (it comes with NVIDIA's driver)");
  auto functions = std::make_shared<Functions>();
  const auto load = [library](auto& function, const char* name) {
    function =
        reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, name));
    return function != nullptr;
  };
  if (!load(functions->init, "nvmlInit_v2") ||
      !load(functions->device_by_uuid, "nvmlDeviceGetHandleByUUID") ||
      !load(functions->processes, "nvmlDeviceGetComputeRunningProcesses_v3"))
    return fail(ErrorCode::kNotFound, path + " is older than NVML 11.6, or no NVML at all");
  if (const int result = functions->init(); result != kSuccess)
    return fail(ErrorCode::kSystem, format("{} does not start: nvmlInit gives {}", path, result));
  return std::unique_ptr<GpuProcesses>(new GpuProcesses(std::move(functions)));
}

Result<void*> GpuProcesses::device_of(const Uuid& uuid) {
  if (const auto known = devices_.find(uuid); known != devices_.end()) return known->second;
  const std::string whole = gpu_uuid_text(uuid);
  const std::string part = "MIG" + whole.substr(whole.find('-'));
  for (const std::string& text : {whole, part}) {
    void* device = nullptr;
    if (functions_->device_by_uuid(text.c_str(), &device) != kSuccess) continue;
    devices_[uuid] = device;
    return device;
  }
  return fail(ErrorCode::kNotFound, "NVML knows no " + whole);
}

Result<GpuProcesses::Bytes> GpuProcesses::of(const Uuid& uuid) {
  SLUICE_TRY(void* const device, device_of(uuid));
  std::vector<ProcessInfo> infos(kRoomForNew);
  for (int i = 0; i < kAttempts; ++i) {
    auto count = static_cast<unsigned>(infos.size());
    const int result = functions_->processes(device, &count, infos.data());
    if (result == kInsufficientSize && count <= kProcessesMax) {
      infos.resize(count + kRoomForNew);
      continue;
    }
    if (result != kSuccess || count > infos.size())
      return fail(ErrorCode::kSystem, format("NVML does not list the processes of {}: {}",
                                             gpu_uuid_text(uuid), result));
    Bytes out;
    for (unsigned at = 0; at < count; ++at)
      if (infos[at].used_bytes != kUnknownBytes)
        out[static_cast<std::int32_t>(infos[at].pid)] += infos[at].used_bytes;
    return out;
  }
  return fail(ErrorCode::kSystem, "NVML's list of processes grows faster than it is read");
}

}  // namespace sluice::server
