#include "shim/tls_library.h"

#include "common/format.h"

#include <dlfcn.h>

#include <atomic>
#include <string>

namespace sluice::shim {
namespace {

std::atomic<const transport::tls::Library*>& known_library() {
  static std::atomic<const transport::tls::Library*> library{nullptr};
  return library;
}

}  // namespace

void set_tls_library_for_test(const transport::tls::Library& library) {
  known_library() = &library;
}

Result<const transport::tls::Library*> tls_library() {
  // Asked again when a connection was cut: whoever waits for the new one may hold the loader's
  // lock.
  if (const auto* known = known_library().load(); known != nullptr) return known;
  Dl_info own{};
  if (::dladdr(reinterpret_cast<void*>(&tls_library), &own) == 0 || own.dli_fname == nullptr)
    return fail(ErrorCode::kNotFound, "TLS: the client libraries cannot find their own folder");
  std::string path = own.dli_fname;
  path = path.substr(0, path.rfind('/') + 1) + "libsluice_tls.so";
  // Its symbols are nobody else's business, and it stays: threads may be inside it.
  void* const object = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (object == nullptr) {
    const char* const why = ::dlerror();
    return fail(ErrorCode::kNotFound,
                format("TLS: {} cannot be opened ({}); install it beside libsluice.so", path,
                       why != nullptr ? why : "unknown reason"));
  }
  const auto find = reinterpret_cast<transport::tls::LibraryFunction>(
      ::dlsym(object, transport::tls::kLibrarySymbol));
  const auto* const library = find != nullptr ? find(transport::tls::kLibraryVersion) : nullptr;
  if (library == nullptr)
    return fail(ErrorCode::kVersion,
                format("TLS: {} is of another release; install one release whole", path));
  known_library() = library;
  return library;
}

}  // namespace sluice::shim
