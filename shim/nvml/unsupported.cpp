// Functions that a slice has no answer to. Programs ask NVML for much that many GPUs do not have,
// and expect this answer: so the line in the log is one that is asked for (SLUICE_LOG=info), and
// there is one for each function.
#include "common/log.h"
#include "shim/nvml/library.h"

#include <atomic>

namespace sluice::nvml {
namespace {

Return refuse(const char* name, std::atomic<bool>& is_logged) noexcept {
  return guarded([&]() -> Return {
    if (!Library::of_process().is_started()) return kUninitialized;
    if (!is_logged.exchange(true)) SLUICE_LOG_INFO("nvml", "{} is not supported", name);
    return kNotSupported;
  });
}

}  // namespace
}  // namespace sluice::nvml

// Arguments are not looked at, so that their types need not be known.
#define SLUICE_NVML_ANSWERED(name)
#define SLUICE_NVML_REFUSED(name)                  \
  SLUICE_NVML name(...) {                          \
    static std::atomic<bool> is_logged{false};     \
    return sluice::nvml::refuse(#name, is_logged); \
  }
#include "shim/nvml/functions.def"
