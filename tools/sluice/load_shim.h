// The environment that brings the shim into a program.
#pragma once

#include <string>

namespace sluice::tool {

struct ShimOptions {
  std::string folder;   ///< with our libraries
  std::string program;  ///< the file that will be executed
  bool wants_audit = true;
};

/// Changes this process's environment: LD_PRELOAD, LD_LIBRARY_PATH and, where the loader makes no
/// harm of it, LD_AUDIT. What was set before stays behind ours.
void load_shim(const ShimOptions& options);

/// True if the audit object may be loaded: from glibc 2.35 on it costs nothing per call; before,
/// the loader sent every call between libraries through itself, and dlmopen crashed with any audit
/// object. Not under valgrind, which has a loader of its own.
bool can_audit(const std::string& program, const std::string& glibc_version);

/// The address sanitizer's runtime that the program is linked to, empty if none: it insists on
/// being the first library of all.
std::string sanitizer_of(const std::string& program);

}  // namespace sluice::tool
