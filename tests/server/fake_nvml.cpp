// A libnvidia-ml.so.1 with one GPU, GPU-00000000-0000-0000-0000-000000000000, whose processes are
// the lines "PID BYTES" of the file named by FAKE_NVML_FILE. "broken" instead: it does not start.
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#define FAKE_NVML extern "C" __attribute__((visibility("default"))) int

namespace {

struct ProcessInfo {
  unsigned pid;
  unsigned long long used_bytes;
  unsigned gpu_instance, compute_instance;
};

std::vector<std::string> lines() {
  std::ifstream file(std::getenv("FAKE_NVML_FILE"));
  std::vector<std::string> out;
  for (std::string line; std::getline(file, line);) out.push_back(line);
  return out;
}

}  // namespace

FAKE_NVML nvmlInit_v2() {
  const auto all = lines();
  return !all.empty() && all[0] == "broken" ? 999 : 0;
}

FAKE_NVML nvmlDeviceGetHandleByUUID(const char* uuid, void** device) {
  static int the_gpu = 0;
  *device = &the_gpu;
  return std::strcmp(uuid, "GPU-00000000-0000-0000-0000-000000000000") == 0 ? 0 : 6;
}

FAKE_NVML nvmlDeviceGetComputeRunningProcesses_v3(void*, unsigned* count, ProcessInfo* infos) {
  const auto all = lines();
  const unsigned places = *count;
  *count = static_cast<unsigned>(all.size());
  if (places < all.size()) return 7;
  for (const std::string& line : all) {
    char* rest = nullptr;
    const unsigned long pid = std::strtoul(line.c_str(), &rest, 10);
    *infos++ = {static_cast<unsigned>(pid), std::strtoull(rest, nullptr, 10), ~0u, ~0u};
  }
  return 0;
}
