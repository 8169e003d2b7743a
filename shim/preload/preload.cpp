// libsluice.so: the one file for LD_PRELOAD. It is our CUDA runtime under the SONAME
// libcudart.so.13 and brings libcuda.so.1 along (see CMakeLists.txt); before the program's own
// constructors run, it redirects a CUDA runtime of any version that is linked statically into the
// program. Where the audit object (shim/audit) is loaded, that does it, for all objects. In other
// programs it reads a few ELF headers and does nothing.
#include "common/log.h"
#include "shim/bind/bind.h"
#include "shim/cudart/runtime.h"

#include <link.h>
#include <unistd.h>

#include <string>

namespace {

using sluice::LogLevel;
using sluice::cudart::RuntimeTable;

bool g_is_audited = false;

}  // namespace

extern "C" __attribute__((visibility("default"))) constinit const RuntimeTable sluice_runtime = {
    .layout = sluice::cudart::kRuntimeTableLayout,
    .entries = sluice::cudart::kEntries,
    .entry_count = &sluice::cudart::kEntryCount,
    .serve_major = &sluice::cudart::serve_major,
    .is_audited = &g_is_audited};

namespace {

int first_object(dl_phdr_info* info, std::size_t, void* base) {
  *static_cast<std::uintptr_t*>(base) = info->dlpi_addr;
  return 1;  // the main program comes first
}

std::string program_name() {
  char path[4096];
  const ssize_t bytes = ::readlink("/proc/self/exe", path, sizeof path);
  return bytes > 0 ? std::string(path, static_cast<std::size_t>(bytes)) : "this program";
}

void bind_program() {
  if (g_is_audited) return;
  std::uintptr_t base = 0;
  ::dl_iterate_phdr(&first_object, &base);
  const sluice::Status bound = sluice::bind::bind_object("/proc/self/exe", base, sluice_runtime);
  if (bound) return;
  sluice::log_open_from_environment("shim", LogLevel::kWarn);
  SLUICE_LOG_ERROR("shim", "{}: {}", program_name(), bound.error().message);
}

__attribute__((constructor)) void on_load() {
  try {
    bind_program();
  } catch (...) {
    return;  // out of memory before main: the program will find out by itself
  }
}

}  // namespace
