// spdlog and fmt are header-only here and nowhere else: no other file pays for their headers.
#define FMT_HEADER_ONLY
#undef SPDLOG_COMPILED_LIB
#define SPDLOG_HEADER_ONLY
#define SPDLOG_FMT_EXTERNAL
#include "common/log.h"

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <mutex>

namespace sluice {
namespace {

std::atomic<LogLevel> g_level{LogLevel::kWarn};
std::mutex g_mutex;
// Leaked on purpose: lines may be written while static objects are being destroyed.
spdlog::logger* g_logger = nullptr;

LogLevel level_from(std::string_view text, LogLevel fallback) {
  constexpr std::string_view kNames[] = {"trace", "debug", "info", "warn", "error", "off"};
  for (std::size_t i = 0; i < std::size(kNames); ++i)
    if (text == kNames[i]) return static_cast<LogLevel>(i);
  return fallback;
}

spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kTrace:
      return spdlog::level::trace;
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarn:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
    case LogLevel::kOff:
      return spdlog::level::off;
  }
  return spdlog::level::off;
}

spdlog::logger* make_logger(std::string_view component, std::string_view file) {
  std::shared_ptr<spdlog::sinks::sink> sink;
  if (!file.empty()) {
    try {
      sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(std::string(file));
    } catch (const spdlog::spdlog_ex&) {
      sink = nullptr;  // an unwritable log file must not stop the program: stderr takes over
    }
  }
  if (!sink) sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  auto* logger = new spdlog::logger(std::string(component), std::move(sink));
  logger->set_level(spdlog::level::trace);
  logger->flush_on(spdlog::level::info);
  logger->set_pattern("%Y-%m-%dT%H:%M:%S.%e %l %n[%P] %v");
  return logger;
}

}  // namespace

std::string vformat(fmt::string_view text, fmt::format_args args) {
  return fmt::vformat(text, args);
}

void log_open(std::string_view component, std::string_view level_text, LogLevel fallback,
              std::string_view file) {
  std::lock_guard lock(g_mutex);
  g_level = level_from(level_text, fallback);
  g_logger = make_logger(component, file);
}

void log_open_from_environment(std::string_view component, LogLevel fallback) {
  const char* level = std::getenv("SLUICE_LOG");
  const char* file = std::getenv("SLUICE_LOG_FILE");
  log_open(component, level ? level : "", fallback, file ? file : "");
}

void log_set_level(std::string_view level_text) noexcept {
  g_level = level_from(level_text, g_level);
}

bool log_enabled(LogLevel level) noexcept {
  return level >= g_level.load(std::memory_order_relaxed);
}

void log_line(LogLevel level, std::string_view category, std::string_view message) noexcept {
  try {
    spdlog::logger* logger = nullptr;
    {
      std::lock_guard lock(g_mutex);
      if (!g_logger) g_logger = make_logger("sluice", "");
      logger = g_logger;
    }
    logger->log(to_spdlog(level), "{}: {}", category, message);
  } catch (...) {
    return;  // a log line is never worth an exception in somebody else's program
  }
}

}  // namespace sluice
