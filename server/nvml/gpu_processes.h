// Which process has how much of a GPU's memory, as NVIDIA's management library on this host says.
// What it declares of NVML is from the public NVML API reference.
#pragma once

#include "common/result.h"

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

namespace sluice::server {

inline constexpr const char* kNvmlLibrary = "libnvidia-ml.so.1";

/// Confined to one thread at a time: a question may take milliseconds.
class GpuProcesses {
 public:
  using Uuid = std::array<std::uint8_t, 16>;
  /// Bytes by process id.
  using Bytes = std::map<std::int32_t, std::uint64_t>;

  /// Loads the library for good. Err(kNotFound): there is none; Err(kSystem): it does not start.
  static Result<std::unique_ptr<GpuProcesses>> open(const std::string& library = kNvmlLibrary);
  /// Err(kNotFound): it knows no such GPU, whole or part (MIG); Err(kSystem): it does not say.
  /// Processes whose memory it does not know are left out.
  Result<Bytes> of(const Uuid& uuid);

 private:
  struct Functions;
  explicit GpuProcesses(std::shared_ptr<const Functions> functions)
      : functions_(std::move(functions)) {}
  Result<void*> device_of(const Uuid& uuid);

  std::shared_ptr<const Functions> functions_;
  std::map<Uuid, void*> devices_;  ///< those that were found
};

}  // namespace sluice::server
