#include "shim/stats.h"

#include "common/format.h"
#include "common/log.h"
#include "shim/call_sites.h"
#include "shim/json_text.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace sluice::shim {
namespace {

std::string program_path() {
  char path[4096];
  const ssize_t n = ::readlink("/proc/self/exe", path, sizeof path);
  return n > 0 ? std::string(path, static_cast<std::size_t>(n)) : "";
}

constexpr std::size_t kSitesMax = 20;

const char* class_name(wire::Class travels) {
  switch (travels) {
    case wire::Class::kLocal:
      return "local";
    case wire::Class::kMemo:
      return "memo";
    case wire::Class::kPosted:
      return "posted";
    case wire::Class::kCalled:
      return "called";
    case wire::Class::kPushed:
      return "pushed";
    case wire::Class::kUnsupported:
      return "unsupported";
  }
  return "?";
}

struct Line {
  wire::Fn fn{};
  std::uint64_t calls = 0, waits = 0, waited_ns = 0, bytes = 0;
};

std::vector<Line> lines_of(const Process& process) {
  std::vector<Line> lines;
  for (std::size_t i = 0; i < process.functions.size(); ++i) {
    const FunctionCount& count = process.functions[i];
    const std::uint64_t calls = count.calls.load(std::memory_order_relaxed);
    if (calls != 0)
      lines.push_back({static_cast<wire::Fn>(i), calls,
                       count.round_trips.load(std::memory_order_relaxed),
                       count.waited_ns.load(std::memory_order_relaxed),
                       count.bytes.load(std::memory_order_relaxed)});
  }
  return lines;
}

std::string functions_json(const std::vector<Line>& lines) {
  std::string out;
  for (const Line& line : lines) {
    if (!out.empty()) out += ',';
    out += format(
        "\"{}\":{{\"class\":\"{}\",\"count\":{},\"round_trips\":{},\"waited_us\":{},\"bytes\":{}}}",
        wire::fn_name(line.fn), class_name(wire::fn_class(line.fn)), line.calls, line.waits,
        line.waited_ns / 1000, line.bytes);
  }
  return out;
}

std::string sites_json() {
  std::string out;
  for (const CallSite& site : worst_call_sites(kSitesMax)) {
    if (!out.empty()) out += ',';
    out += format("{{\"function\":\"{}\",\"site\":{},\"count\":{},\"waited_us\":{}}}",
                  wire::fn_name(site.fn), quoted(site.place), site.count, site.waited_ns / 1000);
  }
  return out;
}

void write_text(const char* path, const std::string& text, int flags) {
  const Fd file(::open(path, O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0644));
  // One write: the lines of processes that end together stay whole.
  if (!file.valid() ||
      ::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    SLUICE_LOG_WARN("shim", "The statistics cannot be written to {}: {}", path,
                    std::strerror(errno));
}

std::string with_pid(std::string path) {
  for (std::size_t at = 0; (at = path.find("%p", at)) != std::string::npos;)
    path.replace(at, 2, std::to_string(::getpid()));
  return path;
}

const char* wish(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0' ? value : nullptr;
}

}  // namespace

WaitScope::~WaitScope() {
  const auto waited = std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::steady_clock::now() - start_);
  const auto waited_ns = static_cast<std::uint64_t>(waited.count());
  FunctionCount& count = current_count();
  count.round_trips.fetch_add(1, std::memory_order_relaxed);
  count.waited_ns.fetch_add(waited_ns, std::memory_order_relaxed);
  note_call_site(thread_state().fn, waited_ns);
}

void prepare_stats() noexcept {
  if (wish("SLUICE_STATS") != nullptr) enable_call_sites();
}

std::string stats_json(const Process& process, Session& session) {
  const std::vector<Line> lines = lines_of(process);
  std::uint64_t calls = 0;
  for (const Line& line : lines) calls += line.calls;
  const Traffic& traffic = session.pipeline().traffic();
  return format(
      "{{\"pid\":{},\"program\":{},\"server\":{},\"transport\":{},\"worker_pid\":{},\"session\":{},"
      "\"calls\":{},\"round_trips\":{},\"posted\":{},\"bytes_sent\":{},\"bytes_received\":{},"
      "\"bytes_staged\":{},\"functions\":{{{}}},\"sites\":[{}]}}\n",
      ::getpid(), quoted(program_path()), quoted(session.server()),
      quoted(session.pipeline().transport_name()), session.welcome().worker_pid,
      session.welcome().session_id, calls, traffic.round_trips.load(), traffic.posted.load(),
      traffic.bytes_sent.load(), traffic.bytes_received.load(), traffic.bytes_staged.load(),
      functions_json(lines), sites_json());
}

std::string stats_table(const Process& process, Session& session) {
  std::vector<Line> lines = lines_of(process);
  std::sort(lines.begin(), lines.end(), [](const Line& a, const Line& b) {
    return a.waited_ns != b.waited_ns ? a.waited_ns > b.waited_ns : a.calls > b.calls;
  });
  const Traffic& traffic = session.pipeline().traffic();
  std::string out = format(
      "sluice: {} (pid {}) on {}: {} round trips, {} posted, {} bytes sent, {} received\n"
      "{:>10} {:>10} {:>12} {:>14}  {:<11} {}\n",
      program_path(), ::getpid(), session.server(), traffic.round_trips.load(),
      traffic.posted.load(), traffic.bytes_sent.load(), traffic.bytes_received.load(), "calls",
      "waits", "waited us", "bytes", "class", "function");
  for (const Line& line : lines)
    out += format("{:>10} {:>10} {:>12} {:>14}  {:<11} {}\n", line.calls, line.waits,
                  line.waited_ns / 1000, line.bytes, class_name(wire::fn_class(line.fn)),
                  wire::fn_name(line.fn));
  const std::vector<CallSite> sites = worst_call_sites(kSitesMax);
  if (!sites.empty()) out += format("{:>10} {:>12}  waits by place\n", "waits", "waited us");
  for (const CallSite& site : sites)
    out += format("{:>10} {:>12}  {} in {}\n", site.count, site.waited_ns / 1000,
                  wire::fn_name(site.fn), site.place);
  return out;
}

void write_stats(const Process& process, Session& session) noexcept {
  if (const char* path = wish("SLUICE_STATS_FILE"))
    write_text(path, stats_json(process, session), O_APPEND);
  const char* where = wish("SLUICE_STATS");
  if (where == nullptr) return;
  if (std::strcmp(where, "1") == 0 || std::strcmp(where, "stderr") == 0) {
    const std::string table = stats_table(process, session);
    static_cast<void>(!::write(STDERR_FILENO, table.data(), table.size()));
    return;
  }
  const std::string path = with_pid(where);
  write_text(path.c_str(),
             path.ends_with(".json") ? stats_json(process, session) : stats_table(process, session),
             O_TRUNC);
}

}  // namespace sluice::shim
