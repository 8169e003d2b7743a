// Logging for daemons and for the libraries loaded into applications: never on stdout, never a
// payload or a secret.
#pragma once

#include "common/format.h"

#include <cstdint>
#include <string_view>

namespace sluice {

/// error = someone must act; warn = degraded but serving; info = life cycle; debug = per object;
/// trace = per call.
enum class LogLevel : std::uint8_t { kTrace, kDebug, kInfo, kWarn, kError, kOff };

/// Sets up the process's log once: `level_text` is trace|debug|info|warn|error|off (unknown text =
/// `fallback`), `file` empty = stderr. `component` is the first word of every line ("sluiced",
/// "shim"). Thread-safe.
void log_open(std::string_view component, std::string_view level_text, LogLevel fallback,
              std::string_view file);
/// log_open from SLUICE_LOG and SLUICE_LOG_FILE, as the shim and softgpu do.
void log_open_from_environment(std::string_view component, LogLevel fallback);

/// Changes the level of a log that is open; unknown text changes nothing. Thread-safe.
void log_set_level(std::string_view level_text) noexcept;
bool log_enabled(LogLevel level) noexcept;
void log_line(LogLevel level, std::string_view category, std::string_view message) noexcept;

template <class... Args>
void log(LogLevel level, std::string_view category, fmt::format_string<Args...> text,
         Args&&... args) {
  if (log_enabled(level))
    log_line(level, category, ::sluice::vformat(text, fmt::make_format_args(args...)));
}

}  // namespace sluice

#define SLUICE_LOG_ERROR(category, ...) \
  ::sluice::log(::sluice::LogLevel::kError, category, __VA_ARGS__)
#define SLUICE_LOG_WARN(category, ...) \
  ::sluice::log(::sluice::LogLevel::kWarn, category, __VA_ARGS__)
#define SLUICE_LOG_INFO(category, ...) \
  ::sluice::log(::sluice::LogLevel::kInfo, category, __VA_ARGS__)
#define SLUICE_LOG_DEBUG(category, ...) \
  ::sluice::log(::sluice::LogLevel::kDebug, category, __VA_ARGS__)
#define SLUICE_LOG_TRACE(category, ...) \
  ::sluice::log(::sluice::LogLevel::kTrace, category, __VA_ARGS__)
