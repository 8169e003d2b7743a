// A library that loads, exports every name of the genuine one, and refuses what is called: programs
// that are linked to it start, and what they do without it works. CMakeLists.txt says which library
// (SLUICE_LIBRARY), its names (SLUICE_NAMES) and its status for "not supported" (SLUICE_REFUSAL).
//
// Arguments are not looked at, so that their types need not be known.
#include "shim/libs/stand_in.h"

#include "common/log.h"

#include <cstddef>
#include <cstring>

namespace sluice::libs {

void refuse(const char* name, std::atomic<bool>& is_said) noexcept {
  static std::atomic<bool> has_refused{false};
  if (is_said.exchange(true)) return;
  try {
    static const bool is_open = (log_open_from_environment("shim", LogLevel::kWarn), true);
    static_cast<void>(is_open);
    if (!has_refused.exchange(true))
      SLUICE_LOG_WARN(
          "libs",
          "{} is not supported: calls of {} are not carried to the server yet and fail, "
          "this and all others (docs/libraries.md)",
          name, SLUICE_LIBRARY);
    else
      SLUICE_LOG_INFO("libs", "{} is not supported", name);
  } catch (...) {
    // No memory for a line: the status says it, too.
  }
}

namespace {

/// 0 wherever the ABI returns a number of any type, complex ones included.
struct Number {
  double real, imaginary;
};

}  // namespace
}  // namespace sluice::libs

#define SLUICE_REFUSED(type, name, arguments, value)                      \
  extern "C" __attribute__((visibility("default"))) type name arguments { \
    static std::atomic<bool> is_said{false};                              \
    sluice::libs::refuse(#name, is_said);                                 \
    value;                                                                \
  }
#define SLUICE_STATUS(name) SLUICE_REFUSED(int, name, (...), return SLUICE_REFUSAL)
#define SLUICE_TEXT(name) SLUICE_REFUSED(const char*, name, (...), return sluice::libs::kText)
#define SLUICE_SIZE(name) SLUICE_REFUSED(std::size_t, name, (...), return 0)
#define SLUICE_NOTHING(name) SLUICE_REFUSED(void, name, (...), return )
#define SLUICE_NUMBER(name) SLUICE_REFUSED(sluice::libs::Number, name, (...), return {})
#define SLUICE_MESSAGE(name)                                                           \
  SLUICE_REFUSED(                                                                      \
      void, name, (char* text, std::size_t bytes), if (text != nullptr && bytes > 0) { \
        std::strncpy(text, sluice::libs::kText, bytes - 1);                            \
        text[bytes - 1] = 0;                                                           \
      })

#include SLUICE_NAMES
