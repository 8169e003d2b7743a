// The environment in which UCX must be loaded so that it is a good guest. UCX reads its settings
// when its libraries are loaded and initialised: as they come, it replaces the process's handlers
// for SIGSEGV and others, rewrites the entries of mmap() and munmap(), watches a public folder and
// prints warnings. Settings that the user made win, apart from these.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace sluice::transport::ucx {

using Settings = std::vector<std::pair<std::string, std::string>>;

/// What keeps UCX out of the process's affairs.
const Settings& quiet_settings();

/// While it lives, the process's environment has the settings on top; then it is as before, and a
/// change that another thread made meanwhile stays. Does not call setenv(), which would move or
/// free memory that other threads are reading: they see the one array or the other. The array
/// stays allocated for them (some kilobytes, once in a process). One at a time.
class ScopedEnvironment {
 public:
  explicit ScopedEnvironment(const Settings& settings);
  ~ScopedEnvironment();
  ScopedEnvironment(const ScopedEnvironment&) = delete;
  ScopedEnvironment& operator=(const ScopedEnvironment&) = delete;

 private:
  const Settings& settings_;
  char** before_;
  char** ours_;
};

}  // namespace sluice::transport::ucx
