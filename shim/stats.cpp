#include "shim/stats.h"

#include "common/format.h"
#include "common/log.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

namespace sluice::shim {
namespace {

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string program_path() {
  char path[4096];
  const ssize_t n = ::readlink("/proc/self/exe", path, sizeof path);
  return n > 0 ? std::string(path, static_cast<std::size_t>(n)) : "";
}

std::string function_counts(const Process& process, std::uint64_t* calls) {
  std::string out;
  for (std::size_t i = 0; i < process.functions.size(); ++i) {
    const std::uint64_t count = process.functions[i].calls.load(std::memory_order_relaxed);
    if (count == 0) continue;
    *calls += count;
    if (!out.empty()) out += ',';
    out += format("\"{}\":{{\"count\":{},\"round_trips\":{}}}",
                  wire::fn_name(static_cast<wire::Fn>(i)), count,
                  process.functions[i].round_trips.load(std::memory_order_relaxed));
  }
  return out;
}

}  // namespace

void write_stats(const Process& process, Session& session) noexcept {
  const char* path = std::getenv("SLUICE_STATS_FILE");
  if (path == nullptr || *path == '\0') return;
  std::uint64_t calls = 0;
  const std::string functions = function_counts(process, &calls);
  const Traffic& traffic = session.pipeline().traffic();
  const std::string line = format(
      "{{\"pid\":{},\"program\":{},\"server\":{},\"transport\":{},\"worker_pid\":{},\"session\":{},"
      "\"calls\":{},"
      "\"round_trips\":{},\"posted\":{},\"bytes_sent\":{},\"bytes_received\":{},\"functions\":{{{}}"
      "}}}\n",
      ::getpid(), quoted(program_path()), quoted(session.server()),
      quoted(session.pipeline().transport_name()), session.welcome().worker_pid,
      session.welcome().session_id, calls, traffic.round_trips.load(), traffic.posted.load(),
      traffic.bytes_sent.load(), traffic.bytes_received.load(), functions);
  const Fd file(::open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  // One write: the lines of processes that end together stay whole.
  if (!file.valid() ||
      ::write(file.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size()))
    SLUICE_LOG_WARN("shim", "The statistics cannot be written to {}: {}", path,
                    std::strerror(errno));
}

}  // namespace sluice::shim
