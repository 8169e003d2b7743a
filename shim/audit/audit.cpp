// libsluice-audit.so, for LD_AUDIT: sees every library that the loader is asked for, and every
// object that it has mapped, before anything of it runs. Two things follow that LD_PRELOAD and
// LD_LIBRARY_PATH cannot do:
//   * the CUDA libraries are ours wherever they are asked for: by DT_RPATH, by absolute path, in a
//     namespace of its own (dlmopen);
//   * static CUDA runtimes are redirected in every object, also in plugins that are opened later,
//     before their constructors register kernels.
// The loader puts this object into a namespace of its own, with a C library of its own: it shares
// nothing with the application but memory. The functions to redirect to are in libsluice.so, which
// LD_PRELOAD brings (sluice_runtime). Without la_symbind nothing here costs anything per call.
#include "common/log.h"
#include "shim/audit/choice.h"
#include "shim/bind/bind.h"
#include "shim/bind/elf_file.h"

#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#define SLUICE_AUDIT_API extern "C" __attribute__((visibility("default")))

namespace sluice::audit {
namespace {

constexpr std::string_view kPreload = "libsluice.so";
constexpr const char* kProgram = "/proc/self/exe";

struct Mapped {
  const link_map* map;
  bool is_main;
};

/// The loader holds its own lock around every call into here, and forks with it: another lock would
/// only be one more that a child may find taken.
class Auditor {
 public:
  Auditor() : choice_(own_folder()), is_idle_(is_own_program(base_name(program_path().c_str()))) {
    log_open_from_environment("audit", LogLevel::kWarn);
  }

  const char* choose(const char* name) { return is_idle_ ? name : choice_.choose(name); }

  void opened(const link_map* map, Lmid_t name_space) {
    if (is_idle_) return;
    const bool is_first = !has_main_;
    has_main_ = true;  // the program is the first object of all
    if (name_space == LM_ID_BASE && base_name(map->l_name) == kPreload) preload_ = map;
    waiting_.push_back({map, is_first});
  }

  void closed(const link_map* map) {
    std::erase_if(waiting_, [&](const Mapped& entry) { return entry.map == map; });
  }

  /// Everything opened so far is mapped; what waits has not run yet.
  void consistent() {
    const cudart::RuntimeTable* runtime = find_runtime();
    // Before libsluice.so is relocated its table points nowhere: the next occasion will do.
    if (preload_ != nullptr && runtime == nullptr) return;
    for (const Mapped& entry : waiting_) bind(entry, runtime);
    waiting_.clear();
  }

 private:
  /// Not by dladdr, which does not work yet this early before glibc 2.34.
  static std::string own_folder() {
    std::string path;
    ::dl_iterate_phdr(&own_path, &path);
    const std::size_t slash = path.rfind('/');
    return slash == std::string_view::npos ? "." : path.substr(0, slash);
  }

  static int own_path(dl_phdr_info* info, std::size_t, void* path) {
    const auto wanted = reinterpret_cast<std::uintptr_t>(&Auditor::own_path);
    for (unsigned i = 0; i < info->dlpi_phnum; ++i) {
      const ElfW(Phdr)& segment = info->dlpi_phdr[i];
      if (segment.p_type != PT_LOAD || wanted - info->dlpi_addr < segment.p_vaddr ||
          wanted - info->dlpi_addr - segment.p_vaddr >= segment.p_memsz)
        continue;
      *static_cast<std::string*>(path) = info->dlpi_name;
      return 1;
    }
    return 0;
  }

  const cudart::RuntimeTable* find_runtime() {
    if (runtime_ != nullptr || preload_ == nullptr) return runtime_;
    auto file = bind::ElfFile::open(preload_->l_name);
    if (!file) return nullptr;
    const bind::ElfFile::Symbols symbols = file->symbols(SHT_DYNSYM);
    for (const Elf64_Sym& symbol : symbols.table) {
      if (symbols.name(symbol) != "sluice_runtime") continue;
      const auto* found =
          reinterpret_cast<const cudart::RuntimeTable*>(preload_->l_addr + symbol.st_value);
      const bool is_relocated = reinterpret_cast<std::uintptr_t>(found->entries) > preload_->l_addr;
      if (is_relocated && found->layout == cudart::kRuntimeTableLayout) runtime_ = found;
      break;
    }
    // From now on libsluice.so need not look at the program itself.
    if (runtime_ != nullptr) *runtime_->is_audited = true;
    return runtime_;
  }

  static void bind(const Mapped& entry, const cudart::RuntimeTable* runtime) {
    const std::string path = entry.is_main ? kProgram : entry.map->l_name;
    // The kernel's own object has no file; ours have no runtime to redirect.
    if (path.empty() || base_name(path.c_str()).starts_with("libsluice")) return;
    const Status bound = runtime != nullptr ? bind::bind_object(path, entry.map->l_addr, *runtime)
                                            : refuse_static_runtime(path);
    if (bound) return;
    // A library may never be called, and a stripped one with kernels may use the driver alone.
    log(entry.is_main ? LogLevel::kError : LogLevel::kWarn, "audit", "{}: {}",
        entry.is_main ? program_path() : path, bound.error().message);
  }

  /// Without libsluice.so there is nothing to redirect to.
  static Status refuse_static_runtime(const std::string& path) {
    if (!bind::has_static_runtime(path)) return {};
    return fail(ErrorCode::kUnsupported,
                "links the CUDA runtime statically: libsluice.so must be in LD_PRELOAD to redirect "
                "it (sluice run does that)");
  }

  static std::string program_path() {
    char target[4096];
    const ssize_t bytes = ::readlink(kProgram, target, sizeof target);
    return bytes > 0 ? std::string(target, static_cast<std::size_t>(bytes)) : kProgram;
  }

  const Choice choice_;
  const bool is_idle_;
  std::vector<Mapped> waiting_;
  bool has_main_ = false;
  const link_map* preload_ = nullptr;
  const cudart::RuntimeTable* runtime_ = nullptr;
};

Auditor& auditor() {
  static Auditor* const instance = new Auditor;  // leaked: the loader calls until the very end
  return *instance;
}

/// The loader is written in C: nothing may pass through it.
template <class Body>
auto guarded(Body&& body, decltype(body()) otherwise) noexcept {
  try {
    return body();
  } catch (...) {
    return otherwise;
  }
}

}  // namespace
}  // namespace sluice::audit

using sluice::audit::auditor;
using sluice::audit::guarded;

SLUICE_AUDIT_API unsigned la_version(unsigned version) {
  return std::min<unsigned>(version, LAV_CURRENT);
}

SLUICE_AUDIT_API char* la_objsearch(const char* name, std::uintptr_t*, unsigned flag) {
  const char* chosen = name;
  // Once per request, before any search.
  if (flag == LA_SER_ORIG) chosen = guarded([&] { return auditor().choose(name); }, name);
  return const_cast<char*>(chosen);  // the interface has no const; the loader does not write
}

SLUICE_AUDIT_API unsigned la_objopen(link_map* map, Lmid_t name_space, std::uintptr_t*) {
  return guarded([&] { return auditor().opened(map, name_space), 0u; }, 0u);  // no symbol of it
}

SLUICE_AUDIT_API unsigned la_objclose(std::uintptr_t* cookie) {
  // By default a cookie is the object's link_map.
  return guarded([&] { return auditor().closed(reinterpret_cast<const link_map*>(*cookie)), 0u; },
                 0u);
}

SLUICE_AUDIT_API void la_activity(std::uintptr_t*, unsigned flag) {
  if (flag == LA_ACT_CONSISTENT) (void)guarded([] { return auditor().consistent(), 0; }, 0);
}

SLUICE_AUDIT_API void la_preinit(std::uintptr_t*) {
  (void)guarded([] { return auditor().consistent(), 0; }, 0);
}
