#include "tools/sluice/run.h"

#include "common/percent.h"
#include "common/size.h"
#include "tools/sluice/exit_codes.h"
#include "tools/sluice/load_shim.h"
#include "tools/sluice/local_server.h"
#include "tools/sluice/preflight.h"
#include "tools/sluice/probe.h"

#include <nlohmann/json.hpp>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>

namespace sluice::tool {
namespace {

namespace fs = std::filesystem;

const char* g_command = "run";  ///< as the user called it

int refuse(int code, const std::string& message) {
  std::fprintf(stderr, "sluice %s: %s\n", g_command, message.c_str());
  return code;
}

pid_t g_child = -1;
void forward(int signal) {
  if (g_child > 0) ::kill(g_child, signal);
}

/// Runs the command and returns its exit status, 128 + N for signal N. Signals meant for us go to
/// the program.
int run_child(const ShimOptions& shim, const std::string& path, std::vector<std::string> command) {
  std::vector<char*> arguments;
  for (std::string& word : command) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  g_child = ::fork();
  if (g_child < 0) return refuse(kExitNotExecutable, "the program cannot be started");
  if (g_child == 0) {
    load_shim(shim);
    ::execv(path.c_str(), arguments.data());
    ::_exit(errno == ENOENT ? kExitNotFound : kExitNotExecutable);
  }
  for (const int signal : {SIGTERM, SIGHUP, SIGUSR1, SIGUSR2}) ::signal(signal, forward);
  ::signal(SIGINT, SIG_IGN);  // the terminal sends it to the program as well
  ::signal(SIGQUIT, SIG_IGN);
  int status = 0;
  while (::waitpid(g_child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::vector<nlohmann::json> read_lines(const std::string& path) {
  std::vector<nlohmann::json> out;
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    auto parsed = nlohmann::json::parse(line, nullptr, false);
    if (parsed.is_object()) out.push_back(std::move(parsed));
  }
  return out;
}

void print_stats(const std::string& client_file, const std::string& server_file) {
  const auto sessions = read_lines(server_file);
  for (const auto& client : read_lines(client_file)) {
    std::fprintf(stderr, "sluice: %s pid %d: %llu calls, %llu round trips, %s sent, %s received",
                 client.value("program", "?").c_str(), client.value("pid", 0),
                 client.value("calls", 0ull), client.value("round_trips", 0ull),
                 size_text(client.value("bytes_sent", std::uint64_t{0})).c_str(),
                 size_text(client.value("bytes_received", std::uint64_t{0})).c_str());
    for (const auto& session : sessions)
      if (session.value("session", 0ull) == client.value("session", 0ull))
        std::fprintf(stderr, ", GPU busy %.2f ms, peak memory %s",
                     static_cast<double>(session.value("gpu_us", 0ull)) / 1000.0,
                     size_text(session.value("memory_peak_bytes", std::uint64_t{0})).c_str());
    std::fprintf(stderr, "\n");
  }
}

/// Options that contradict each other.
std::optional<std::string> contradiction(const Settings& settings) {
  if (settings.command.empty()) return "no program given: sluice run [options] -- PROGRAM ARGS...";
  if (settings.is_local && !settings.server.empty())
    return "--local and --server exclude each other";
  if (settings.is_local && settings.tls.mode == "on" && settings.transport != "tcp")
    return "--tls on with --local: only TCP is encrypted, add --transport tcp";
  if (!settings.memory.empty())
    if (const auto size = parse_size(settings.memory); !size)
      return "--memory: " + size.error().message;
  if (!settings.compute_limit.empty())
    if (const auto part = parse_percent(settings.compute_limit); !part)
      return "--compute-limit: " + part.error().message;
  return std::nullopt;
}

std::optional<std::string> cannot_be_reached(const Settings& settings, int* code) {
  *code = kExitUsage;
  if (settings.server.empty())
    return "no server named. Use --local (a server of your own on the software GPU), --server "
           "HOST[:PORT] or --server unix:PATH, or set SLUICE_SERVER, or server in "
           "~/.config/sluice/config.toml";
  if (auto wrong = wrong_transport(settings); !wrong.empty()) return wrong;
  const auto target = target_of(settings);
  if (!target) return target.error().message;
  *code = kExitServer;
  if (const auto reachable = probe(*target); !reachable) return reachable.error().message;
  return std::nullopt;
}

}  // namespace

int run(Settings settings) {
  if (settings.report) g_command = "stats";
  if (const auto wrong = contradiction(settings)) return refuse(kExitUsage, *wrong);
  auto completed = complete(std::move(settings));
  if (!completed) return refuse(kExitUsage, completed.error().message);
  settings = std::move(*completed);
  if (const std::string wrong = wrong_link(settings); !wrong.empty())
    return refuse(kExitUsage, wrong);
  const fs::path bin = fs::read_symlink("/proc/self/exe").parent_path();
  const Preflight checked = preflight(settings.command[0]);
  if (checked.problem) return refuse(checked.problem->exit_code, checked.problem->message);
  const std::string& path = checked.files[0];
  std::optional<LocalServer> local;
  if (settings.is_local) {
    auto started =
        LocalServer::start({.bin_folder = bin.string(),
                            .memory_limit = settings.memory,
                            .use_tcp = settings.transport == "tcp" || settings.transport == "ucx",
                            .use_tls = settings.tls.mode == "on",
                            .io_uring = "",
                            .driver = ""});
    if (!started) return refuse(kExitServer, started.error().message);
    local.emplace(std::move(*started));
    settings.server = local->address();
    settings.tenant = LocalServer::kTenant;
    settings.token_file = local->token_file();
    if (settings.tls.mode == "on") settings.tls.ca_file = local->ca_file();
  } else {
    int code = 0;
    if (const auto problem = cannot_be_reached(settings, &code)) return refuse(code, *problem);
  }
  export_to_environment(settings);
  std::string stats_file = environment("SLUICE_STATS_FILE");
  const bool is_own_file = settings.wants_stats && stats_file.empty();
  if (is_own_file) {
    stats_file = "/tmp/sluice-stats." + std::to_string(::getpid());
    ::setenv("SLUICE_STATS_FILE", stats_file.c_str(), 1);
  }
  std::optional<StatsFolder> folder;
  if (settings.report) {
    auto made = StatsFolder::make();
    if (!made) return refuse(kExitUsage, made.error().message);
    folder.emplace(std::move(*made));
  }
  const ShimOptions shim = {.folder = fs::weakly_canonical(bin / "../lib/sluice").string(),
                            .program = checked.files.back(),
                            .wants_audit = !settings.has_no_audit};
  if (!local && !settings.wants_stats && !folder) {
    load_shim(shim);
    std::vector<char*> arguments;
    for (std::string& word : settings.command) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    ::execv(path.c_str(), arguments.data());
    return refuse(kExitNotExecutable, path + " cannot be started");
  }
  const int status = run_child(shim, path, settings.command);
  const std::string server_stats = local ? local->stats_file() : "";
  if (local) local->stop();
  if (folder && settings.report) show_stats_of_program(*settings.report, *folder);
  if (settings.wants_stats) print_stats(stats_file, server_stats);
  if (is_own_file) ::unlink(stats_file.c_str());
  return status;
}

}  // namespace sluice::tool
