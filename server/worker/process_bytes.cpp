#include "server/worker/process_bytes.h"

#include "server/nvml/gpu_processes.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstring>
#include <memory>

namespace sluice::server {
namespace {

using AskDriver = bool (*)(int device, int pid, std::uint64_t* bytes);

/// Null: it does not count by process.
AskDriver question_of(const std::string& driver_path) {
  void* library = ::dlopen(driver_path.c_str(), RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) return nullptr;
  const auto ask = reinterpret_cast<AskDriver>(::dlsym(library, "softgpu_process_bytes"));
  ::dlclose(library);  // the driver itself stays
  return ask;
}

std::optional<GpuProcesses::Uuid> uuid_of(const DriverTable& driver, std::uint32_t ordinal) {
  CUdevice device{};
  CUuuid uuid{};
  if (driver.cuDeviceGetUuid_v2 == nullptr ||
      driver.cuDeviceGet(&device, static_cast<int>(ordinal)) != CUDA_SUCCESS ||
      driver.cuDeviceGetUuid_v2(&uuid, device) != CUDA_SUCCESS)
    return std::nullopt;
  GpuProcesses::Uuid out{};
  std::memcpy(out.data(), uuid.bytes, out.size());
  return out;
}

}  // namespace

bool measures_itself(const std::string& driver_path) {
  return question_of(driver_path) != nullptr;
}

MemoryAccount::ProcessBytes process_bytes_of(const std::string& driver_path,
                                             const DriverTable& driver) {
  if (const AskDriver ask = question_of(driver_path); ask != nullptr)
    return [ask](std::uint32_t device) -> std::optional<std::uint64_t> {
      std::uint64_t bytes = 0;
      if (!ask(static_cast<int>(device), 0, &bytes)) return std::nullopt;
      return bytes;
    };
  auto opened = GpuProcesses::open();
  if (!opened) return {};
  // Shared with the copies that a std::function may make; the account's is the last.
  const std::shared_ptr<GpuProcesses> processes = std::move(*opened);
  return [processes, &driver](std::uint32_t device) -> std::optional<std::uint64_t> {
    const auto uuid = uuid_of(driver, device);
    if (!uuid) return std::nullopt;
    const auto bytes = processes->of(*uuid);
    if (!bytes) return std::nullopt;
    const auto own = bytes->find(::getpid());
    return own != bytes->end() ? own->second : 0;
  };
}

}  // namespace sluice::server
