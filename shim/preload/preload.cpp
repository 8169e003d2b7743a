// libsluice.so: the one file for LD_PRELOAD. It is our CUDA runtime under the SONAME
// libcudart.so.13 and brings libcuda.so.1 along (see CMakeLists.txt); before the program's own
// constructors run, it redirects a CUDA runtime that is linked statically into the program. In
// other programs it reads a few ELF headers and does nothing.
#include "common/log.h"
#include "shim/bind/bind.h"

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

namespace {

using sluice::LogLevel;

constexpr const char* kRuntime = "libcudart.so.13";

int first_object(dl_phdr_info* info, std::size_t, void* base) {
  *static_cast<std::uintptr_t*>(base) = info->dlpi_addr;
  return 1;  // the main program comes first
}

std::string program_name() {
  char path[4096];
  const ssize_t bytes = ::readlink("/proc/self/exe", path, sizeof path);
  return bytes > 0 ? std::string(path, static_cast<std::size_t>(bytes)) : "this program";
}

void say(const std::string& reason) {
  sluice::log_open_from_environment("shim", LogLevel::kWarn);
  SLUICE_LOG_ERROR("shim", "{}: {}", program_name(), reason);
}

void bind_program() {
  void* runtime = nullptr;
  // Looked up only if the program has names to bind.
  const auto find_target = [&](const char* name) -> void* {
    if (runtime == nullptr) runtime = ::dlopen(kRuntime, RTLD_NOW | RTLD_LOCAL);
    return runtime != nullptr ? ::dlsym(runtime, name) : nullptr;
  };
  std::uintptr_t base = 0;
  ::dl_iterate_phdr(&first_object, &base);
  auto plan = sluice::bind::plan_binding("/proc/self/exe", find_target);
  if (!plan) return say(plan.error().message);
  if (plan->empty()) return;
  if (::dlsym(runtime, "sluice_cudart_abi") == nullptr)
    return say(std::string(kRuntime) +
               " of this process is not Sluice's: its static CUDA runtime "
               "is left alone");
  if (auto bound = sluice::bind::apply_binding(base, *plan); !bound) say(bound.error().message);
}

__attribute__((constructor)) void on_load() {
  try {
    bind_program();
  } catch (...) {
    // Out of memory before main: the program will find out by itself.
  }
}

}  // namespace
