// What NVML says of the machine as a whole.
#include "common/driver_branch.h"
#include "common/format.h"
#include "common/read_file.h"
#include "shim/nvml/library.h"
#include "shim/nvml/text.h"

#include <string>

using namespace sluice;
using namespace sluice::nvml;

namespace {

constexpr std::size_t kCommandBytesMax = 1 << 20;

struct Versions {
  int cuda = 0;
  std::string driver;
};

Return versions(Versions* out) {
  Snapshot status;
  if (const Return failed = Library::of_process().identity(&status)) return failed;
  out->cuda = status->driver_version;
  out->driver = !status->driver_release.empty() ? status->driver_release
                                                : driver_version_text(status->driver_version);
  return kSuccess;
}

}  // namespace

SLUICE_NVML nvmlSystemGetDriverVersion(char* version, unsigned length) {
  return guarded([&]() -> Return {
    Versions known;
    if (const Return failed = versions(&known)) return failed;
    return copy_text(known.driver, version, length);
  });
}

SLUICE_NVML nvmlSystemGetNVMLVersion(char* version, unsigned length) {
  return guarded([&]() -> Return {
    Versions known;
    if (const Return failed = versions(&known)) return failed;
    return copy_text(format("{}.{}", known.cuda / 1000, known.driver), version, length);
  });
}

SLUICE_NVML nvmlSystemGetCudaDriverVersion(int* version) {
  return guarded([&]() -> Return {
    if (version == nullptr) return kInvalidArgument;
    Versions known;
    if (const Return failed = versions(&known)) return failed;
    *version = known.cuda;
    return kSuccess;
  });
}

SLUICE_NVML nvmlSystemGetCudaDriverVersion_v2(int* version) {
  return nvmlSystemGetCudaDriverVersion(version);
}

SLUICE_NVML nvmlSystemGetProcessName(unsigned pid, char* name, unsigned length) {
  return guarded([&]() -> Return {
    if (!Library::of_process().is_started()) return kUninitialized;
    const auto command = read_file(format("/proc/{}/cmdline", pid), kCommandBytesMax);
    if (!command || command->empty()) return kNotFound;
    return copy_text(command->c_str(), name, length);  // up to the first zero: the program
  });
}

namespace {

Return zero(unsigned* count) {
  return guarded([&]() -> Return {
    if (!Library::of_process().is_started()) return kUninitialized;
    if (count == nullptr) return kInvalidArgument;
    *count = 0;
    return kSuccess;
  });
}

}  // namespace

SLUICE_NVML nvmlUnitGetCount(unsigned* count) {
  return zero(count);
}

SLUICE_NVML nvmlGetExcludedDeviceCount(unsigned* count) {
  return zero(count);
}

SLUICE_NVML nvmlGetBlacklistDeviceCount(unsigned* count) {
  return zero(count);
}
