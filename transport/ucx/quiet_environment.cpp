#include "transport/ucx/quiet_environment.h"

#include "common/format.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace sluice::transport::ucx {
namespace {

bool is_of(const char* entry, const std::string& name) {
  return std::strncmp(entry, name.c_str(), name.size()) == 0 && entry[name.size()] == '=';
}

/// Never freed, and known to whoever looks for leaks: other threads may be reading.
void keep(char** array) {
  static auto* const kept = new std::vector<char**>;
  kept->push_back(array);
}

}  // namespace

const Settings& quiet_settings() {
  static const Settings settings = {
      {"UCX_ERROR_SIGNALS", ""},
      {"UCX_HANDLE_ERRORS", "none"},
      {"UCX_DEBUG_SIGNO", "0"},
      {"UCX_MEM_EVENTS", "n"},
      {"UCX_MEM_MMAP_HOOK_MODE", "none"},
      {"UCX_MEM_MALLOC_HOOKS", "n"},
      {"UCX_MEM_MALLOC_RELOC", "n"},
      {"UCX_MEM_CUDA_HOOK_MODE", "none"},
      {"UCX_VFS_ENABLE", "n"},
      {"UCX_WARN_UNUSED_ENV_VARS", "n"},
      {"UCX_LOG_LEVEL", "fatal"},
  };
  return settings;
}

ScopedEnvironment::ScopedEnvironment(const Settings& settings)
    : settings_(settings), before_(environ) {
  std::vector<char*> entries;
  for (const auto& [name, value] : settings)
    entries.push_back(::strdup(format("{}={}", name, value).c_str()));
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const bool is_ours = std::any_of(settings.begin(), settings.end(), [&](const auto& setting) {
      return is_of(*entry, setting.first);
    });
    if (!is_ours) entries.push_back(*entry);
  }
  ours_ = new char*[entries.size() + 1];
  std::copy(entries.begin(), entries.end(), ours_);
  ours_[entries.size()] = nullptr;
  keep(ours_);
  environ = ours_;
}

ScopedEnvironment::~ScopedEnvironment() {
  if (environ == ours_) {
    environ = before_;
    return;
  }
  // Somebody called setenv() or clearenv() meanwhile: theirs is the environment now.
  for (const auto& [name, value] : settings_) {
    const char* now = std::getenv(name.c_str());
    if (now != nullptr && now == value) ::unsetenv(name.c_str());
  }
}

}  // namespace sluice::transport::ucx
