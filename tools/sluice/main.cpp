// sluice, the user's tool. `sluice run` starts an unmodified CUDA program with the shim.
#include "common/result.h"
#include "protocol/frame_io.h"
#include "protocol/opcodes.h"
#include "protocol/wire.h"
#include "server/config/size.h"
#include "server/config/token.h"
#include "tools/sluice/exit_codes.h"
#include "tools/sluice/load_shim.h"
#include "tools/sluice/local_server.h"
#include "tools/sluice/preflight.h"
#include "transport/transport.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>

namespace sluice::tool {
namespace {

namespace fs = std::filesystem;

struct RunOptions {
  std::string server, tenant, token_file, memory, transport = "unix", log;
  bool is_local = false, wants_stats = false, has_no_audit = false;
  std::vector<std::string> command;
};

int refuse(int code, const std::string& message) {
  std::fprintf(stderr, "sluice run: %s\n", message.c_str());
  return code;
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

/// Says Hello and hangs up: tells in words what the program would only see as an error of cuInit.
Status probe(const std::string& server) {
  SLUICE_TRY(const transport::Address address, transport::parse_address(server));
  SLUICE_TRY(const Fd socket, transport::connect_socket(address, std::chrono::seconds(3)));
  wire::Hello hello;
  hello.protocol_version = wire::kProtocolVersion;
  hello.opcode_table_hash = wire::kOpcodeTableHash;
  hello.tenant =
      environment("SLUICE_TENANT").empty() ? LocalServer::kTenant : environment("SLUICE_TENANT");
  hello.token = environment("SLUICE_TOKEN");
  if (const std::string file = environment("SLUICE_TOKEN_FILE"); !file.empty()) {
    SLUICE_TRY(hello.token, config::read_token_file(file));
  }
  hello.pid = ::getpid();
  hello.program = "sluice run (check)";
  SLUICE_CHECK(wire::write_frame(socket.get(), hello));
  SLUICE_TRY(
      const wire::Frame answer,
      wire::read_frame(socket.get(), std::chrono::steady_clock::now() + std::chrono::seconds(30)));
  if (const auto* refusal = std::get_if<wire::Refusal>(&answer))
    return fail(ErrorCode::kPermission, server + " refuses: " + refusal->message);
  return {};
}

pid_t g_child = -1;
void forward(int signal) {
  if (g_child > 0) ::kill(g_child, signal);
}

/// Runs the command and returns its exit status, 128 + N for signal N. Signals meant for us go to
/// the program.
int run_child(const ShimOptions& shim, std::vector<std::string> command) {
  std::vector<char*> arguments;
  for (std::string& word : command) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  g_child = ::fork();
  if (g_child < 0) return refuse(kExitNotExecutable, "the program cannot be started");
  if (g_child == 0) {
    load_shim(shim);
    ::execv(shim.program.c_str(), arguments.data());
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
                 config::size_text(client.value("bytes_sent", std::uint64_t{0})).c_str(),
                 config::size_text(client.value("bytes_received", std::uint64_t{0})).c_str());
    for (const auto& session : sessions)
      if (session.value("session", 0ull) == client.value("session", 0ull))
        std::fprintf(
            stderr, ", GPU busy %.2f ms, peak memory %s",
            static_cast<double>(session.value("gpu_us", 0ull)) / 1000.0,
            config::size_text(session.value("memory_peak_bytes", std::uint64_t{0})).c_str());
    std::fprintf(stderr, "\n");
  }
}

int run(RunOptions options) {
  if (options.command.empty())
    return refuse(kExitUsage, "no program given: sluice run [options] -- PROGRAM ARGS...");
  const fs::path bin = fs::read_symlink("/proc/self/exe").parent_path();
  const std::string path = find_program(options.command[0]);
  if (path.empty()) return refuse(kExitNotFound, "program not found: " + options.command[0]);
  if (const auto bad = preflight(path)) return refuse(bad->exit_code, bad->message);
  if (options.is_local && !options.server.empty())
    return refuse(kExitUsage, "--local and --server exclude each other");
  if (!options.memory.empty()) {
    if (!options.is_local)
      return refuse(kExitUsage,
                    "--memory is for --local; on a server the administrator sets the slice");
    if (const auto size = config::parse_size(options.memory); !size)
      return refuse(kExitUsage, "--memory: " + size.error().message);
  }
  if (!options.log.empty()) ::setenv("SLUICE_LOG", options.log.c_str(), 1);
  std::optional<LocalServer> local;
  if (options.is_local) {
    auto started = LocalServer::start({bin.string(), options.memory, options.transport == "tcp"});
    if (!started) return refuse(kExitServer, started.error().message);
    local.emplace(std::move(*started));
    options.server = local->address();
    options.tenant = LocalServer::kTenant;
    options.token_file = local->token_file();
  }
  if (options.server.empty()) options.server = environment("SLUICE_SERVER");
  if (options.server.empty())
    return refuse(kExitUsage,
                  "no server named. Use --local (a server of your own on the software GPU), "
                  "--server HOST[:PORT] or --server unix:PATH, or set SLUICE_SERVER");
  ::setenv("SLUICE_SERVER", options.server.c_str(), 1);
  if (!options.tenant.empty()) ::setenv("SLUICE_TENANT", options.tenant.c_str(), 1);
  if (!options.token_file.empty())
    ::setenv("SLUICE_TOKEN_FILE", fs::absolute(options.token_file).c_str(), 1);
  if (!local)
    if (const auto reachable = probe(options.server); !reachable)
      return refuse(kExitServer, reachable.error().message);
  std::string stats_file = environment("SLUICE_STATS_FILE");
  const bool is_own_file = options.wants_stats && stats_file.empty();
  if (is_own_file) {
    stats_file = "/tmp/sluice-stats." + std::to_string(::getpid());
    ::setenv("SLUICE_STATS_FILE", stats_file.c_str(), 1);
  }
  const ShimOptions shim = {.folder = fs::weakly_canonical(bin / "../lib/sluice").string(),
                            .program = path,
                            .wants_audit = !options.has_no_audit};
  if (!local && !options.wants_stats) {
    load_shim(shim);
    std::vector<char*> arguments;
    for (std::string& word : options.command) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    ::execv(path.c_str(), arguments.data());
    return refuse(kExitNotExecutable, path + " cannot be started");
  }
  const int status = run_child(shim, options.command);
  const std::string server_stats = local ? local->stats_file() : "";
  if (local) local->stop();
  if (options.wants_stats) print_stats(stats_file, server_stats);
  if (is_own_file) ::unlink(stats_file.c_str());
  return status;
}

}  // namespace
}  // namespace sluice::tool

int main(int argc, char** argv) {
  using sluice::tool::RunOptions;
  CLI::App app{"sluice: runs unmodified CUDA programs on GPUs of another machine"};
  app.require_subcommand(1);
  app.set_version_flag("--version", "sluice 0.1.0");
  RunOptions options;
  CLI::App* run = app.add_subcommand(
      "run",
      "run a program with the shim\nExit status: the program's own, or 2 usage, 3 server "
      "unreachable or refusing, 4 program cannot be carried, 126 not executable, 127 not found");
  run->add_flag("--local", options.is_local,
                "start a server of one's own on the software GPU for this run");
  run->add_option("--server", options.server, "HOST[:PORT] or unix:PATH (default: SLUICE_SERVER)");
  run->add_option("--tenant", options.tenant, "tenant name (default: SLUICE_TENANT)");
  run->add_option("--token-file", options.token_file,
                  "file with the tenant's token (default: SLUICE_TOKEN_FILE)");
  run->add_option("--memory", options.memory,
                  "with --local: the slice of device memory, e.g. 512MiB");
  run->add_option("--transport", options.transport, "with --local: unix or tcp")
      ->check(CLI::IsMember({"unix", "tcp"}));
  run->add_flag("--stats", options.wants_stats,
                "print calls, round trips, bytes and GPU time afterwards");
  run->add_option("--log", options.log,
                  "SLUICE_LOG for the program: trace, debug, info, warn, error or off");
  run->add_flag("--no-audit", options.has_no_audit,
                "do not use LD_AUDIT: plugins with a static CUDA runtime are then not carried");
  run->add_option("command", options.command, "-- PROGRAM ARGS...");
  run->positionals_at_end(true);
  run->prefix_command(false);
  // Everything behind "--" is the program's, also what looks like an option.
  int own = argc;
  for (int i = 1; i < argc; ++i)
    if (std::string_view(argv[i]) == "--") {
      own = i;
      break;
    }
  std::vector<std::string> command(argv + std::min(own + 1, argc), argv + argc);
  try {
    app.parse(own, argv);
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error);
    return code == 0 ? 0 : sluice::tool::kExitUsage;
  }
  options.command.insert(options.command.end(), command.begin(), command.end());
  return sluice::tool::run(std::move(options));
}
