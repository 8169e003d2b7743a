// sluice, the user's tool. `sluice run` starts an unmodified CUDA program with the shim, `sluice
// doctor` says what would be in its way.
#include "tools/sluice/doctor.h"
#include "tools/sluice/exit_codes.h"
#include "tools/sluice/run.h"
#include "tools/sluice/settings.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <string_view>

namespace {

using sluice::tool::Settings;

/// What both commands need to know.
void add_server_options(CLI::App& command, Settings& s) {
  command.add_flag("--local", s.is_local,
                   "a server of one's own on the software GPU, for this run");
  command.add_option("--server", s.server,
                     "HOST[:PORT] or unix:PATH (default: SLUICE_SERVER, else server in "
                     "~/.config/sluice/config.toml)");
  command.add_option("--tenant", s.tenant, "tenant name (default: SLUICE_TENANT, the file)");
  command.add_option("--token-file", s.token_file,
                     "file with the tenant's token (default: SLUICE_TOKEN_FILE, the file)");
  command.add_option("command", s.command, "-- PROGRAM ARGS...");
  command.positionals_at_end(true);
  command.prefix_command(false);
}

void add_run_options(CLI::App& run, Settings& s) {
  run.add_option("--memory", s.memory, "with --local: the slice of device memory, e.g. 512MiB");
  run.add_option("--transport", s.transport,
                 "shm, unix or tcp; shm and unix need a server on this host (default: the best)")
      ->check(CLI::IsMember({"shm", "unix", "tcp"}));
  run.add_flag("--stats", s.wants_stats, "print calls, round trips, bytes and GPU time afterwards");
  run.add_option("--log", s.log,
                 "SLUICE_LOG for the program: trace, debug, info, warn, error, off");
  run.add_flag("--no-audit", s.has_no_audit,
               "do not use LD_AUDIT: plugins with a static CUDA runtime are then not carried");
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"sluice: runs unmodified CUDA programs on GPUs of another machine"};
  app.require_subcommand(1);
  app.set_version_flag("--version", "sluice 0.1.0");
  Settings settings;
  CLI::App* run = app.add_subcommand(
      "run",
      "run a program with the shim\nExit status: the program's own, or 2 usage, 3 server "
      "unreachable or refusing, 4 program cannot be carried, 126 not executable, 127 not found");
  add_server_options(*run, settings);
  add_run_options(*run, settings);
  CLI::App* doctor = app.add_subcommand(
      "doctor",
      "check the settings, the server and a program, and say what to do\nExit status: 0, "
      "or what `sluice run` would end with");
  add_server_options(*doctor, settings);
  // Everything behind "--" is the program's, also what looks like an option.
  int own = argc;
  for (int i = 1; i < argc; ++i)
    if (std::string_view(argv[i]) == "--") {
      own = i;
      break;
    }
  const std::vector<std::string> command(argv + std::min(own + 1, argc), argv + argc);
  try {
    app.parse(own, argv);
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error);
    return code == 0 ? 0 : sluice::tool::kExitUsage;
  }
  settings.command.insert(settings.command.end(), command.begin(), command.end());
  return doctor->parsed() ? sluice::tool::doctor(settings) : sluice::tool::run(settings);
}
