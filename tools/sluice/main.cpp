// sluice, the user's tool. `sluice run` starts an unmodified CUDA program with the shim, `sluice
// stats` tells what its calls cost, `sluice doctor` says what would be in its way, `sluice smi`
// shows what its tenant has of the devices.
#include "common/release.h"
#include "tools/sluice/doctor.h"
#include "tools/sluice/exit_codes.h"
#include "tools/sluice/run.h"
#include "tools/sluice/settings.h"
#include "tools/sluice/smi.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace {

using sluice::tool::DoctorOptions;
using sluice::tool::Settings;
using sluice::tool::SmiOptions;
using sluice::tool::StatsOptions;

/// CLI11 does not know what stands behind "--".
class Help : public CLI::Formatter {
 public:
  explicit Help(std::string usage) : usage_(std::move(usage)) {}
  std::string make_usage(const CLI::App*, std::string) const override { return usage_ + "\n"; }

 private:
  std::string usage_;
};

void add_local(CLI::App& command, Settings& s) {
  command.add_flag("--local", s.is_local, "a server of your own on the software GPU, for this run");
}

/// What all commands need to know.
void add_server_options(CLI::App& command, Settings& s) {
  command
      .add_option("--server", s.server,
                  "HOST[:PORT] or unix:PATH (default: SLUICE_SERVER, else server in "
                  "~/.config/sluice/config.toml)")
      ->type_name("ADDRESS");
  command
      .add_option("--tenant", s.tenant,
                  "who you are (default: SLUICE_TENANT, else tenant in config.toml)")
      ->type_name("NAME");
  command
      .add_option("--token-file", s.token_file,
                  "file with the tenant's token (default: SLUICE_TOKEN_FILE, else token_file in "
                  "config.toml)")
      ->type_name("FILE");
  command
      .add_option("--tls", s.tls.mode,
                  "on, off or auto: on for a server beyond loopback, or with --tls-ca (default: "
                  "SLUICE_TLS, else tls in config.toml, else auto)")
      ->check(CLI::IsMember({"on", "off", "auto"}));
  command
      .add_option("--tls-ca", s.tls.ca_file,
                  "PEM file with the CA of the server's certificate (default: SLUICE_TLS_CA, else "
                  "tls_ca in config.toml, else the system's)")
      ->type_name("FILE");
  command
      .add_option("--tls-cert", s.tls.certificate_file,
                  "your own certificate, if you have one (SLUICE_TLS_CERT, tls_cert)")
      ->type_name("FILE");
  command.add_option("--tls-key", s.tls.key_file, "its private key (SLUICE_TLS_KEY, tls_key)")
      ->type_name("FILE");
}

void add_program(CLI::App& command, Settings& s) {
  command.add_option("command", s.command)->group("");  // the usage line tells it
  command.positionals_at_end(true);
  command.prefix_command(false);
}

void add_transport(CLI::App& command, Settings& s) {
  command
      .add_option(
          "--transport", s.transport,
          "shm, unix, tcp or ucx; shm and unix need a server on this host (default: the best)")
      ->check(CLI::IsMember({"shm", "unix", "tcp", "ucx"}));
  command
      .add_option("--emulate", s.emulate,
                  "as if the server were farther away, e.g. rtt=30ms,bw=1gbit,jitter=2ms")
      ->type_name("LINK");
}

void add_run_options(CLI::App& run, Settings& s) {
  add_local(run, s);
  run.add_option(
         "--memory", s.memory,
         "no more device memory than this, e.g. 512MiB: with --local the slice, else less of it "
         "(SLUICE_MEM_LIMIT)")
      ->type_name("SIZE");
  run.add_option("--compute-limit", s.compute_limit,
                 "no more of each device's time than this, e.g. 50% (SLUICE_COMPUTE_LIMIT)")
      ->type_name("PERCENT");
  add_transport(run, s);
  run.add_option("--log", s.log, "SLUICE_LOG for the program: trace, debug, info, warn, error, off")
      ->type_name("LEVEL");
  run.add_flag("--no-audit", s.has_no_audit,
               "do not use LD_AUDIT: plugins with a static CUDA runtime are then not carried");
}

CLI::App* add_stats(CLI::App& app, Settings& s, StatsOptions& o) {
  CLI::App* stats = app.add_subcommand(
      "stats", "run a program and tell what its CUDA calls cost, or tell what SLUICE_STATS wrote");
  stats->formatter(std::make_shared<Help>(
      "Usage: sluice stats [OPTIONS] -- PROGRAM ARGS...\n       sluice stats [OPTIONS] FILE..."));
  stats->footer(
      "Exit status: the program's own or that of `sluice run`; with files 0, or 2 usage or a file "
      "that cannot be read.\nThe columns are explained in docs/observability.md.");
  stats->add_option("-o,--output", o.output, "table or json")
      ->check(CLI::IsMember({"table", "json"}));
  stats->add_option("--sort", o.sort, "waited (default), calls, waits or bytes, most first")
      ->check(CLI::IsMember({"waited", "calls", "waits", "bytes"}));
  stats->add_option("--lines", o.lines_max, "of functions and of places; 0: all (default 20)")
      ->type_name("N");
  stats->add_option("--to", o.to, "file for the report (default: stdout; with a program stderr)")
      ->type_name("FILE");
  stats->add_option("file", o.files, "what SLUICE_STATS=FILE.json or SLUICE_STATS_FILE=FILE wrote")
      ->type_name("FILE");
  add_server_options(*stats, s);
  add_run_options(*stats, s);
  return stats;
}

CLI::App* add_doctor(CLI::App& app, Settings& s, DoctorOptions& o) {
  CLI::App* doctor = app.add_subcommand(
      "doctor", "check the settings, the server and a program, measure, and say what to do");
  doctor->formatter(std::make_shared<Help>("Usage: sluice doctor [OPTIONS] [-- PROGRAM]"));
  doctor->footer(
      "Opens a session with the server as a program would, measures round trips, launches and "
      "copies for about 4 s, looks at the network and at this host, and says what calls will cost "
      "and what could be better. Runs no program.\n"
      "Exit status: 0, warnings or not; 2 usage, no server named, or a transport that is not "
      "possible here; 3 server unreachable or refusing; with a PROGRAM 4, 126 and 127 as `sluice "
      "run`. Every line is explained in docs/doctor.md.");
  doctor->add_option("-o,--output", o.output, "table or json (docs/doctor.md has its keys)")
      ->check(CLI::IsMember({"table", "json"}));
  doctor->add_flag("!--no-measure", o.measures,
                   "make no session: only ask whether the server would let you in");
  add_local(*doctor, s);
  add_server_options(*doctor, s);
  add_transport(*doctor, s);
  add_program(*doctor, s);
  return doctor;
}

CLI::App* add_smi(CLI::App& app, Settings& s, SmiOptions& o) {
  CLI::App* smi = app.add_subcommand(
      "smi", "show what your tenant has of the server's devices, in the manner of nvidia-smi");
  smi->formatter(std::make_shared<Help>("Usage: sluice smi [OPTIONS]"));
  smi->footer(
      "Memory is the tenant's slice, GPU-Util is of its share of time over the last second or two; "
      "other tenants are not seen. It makes no session.\n"
      "Exit status: 0; 2 usage, no server named, or no such field or device; 3 server unreachable, "
      "refusing, or without a driver. docs/nvml.md has more.");
  smi->add_flag("-L,--list-gpus", o.lists, "one line for each device");
  smi->add_option("--query-gpu", o.query_gpu, "fields of each device, with commas between them")
      ->type_name("FIELDS");
  smi->add_option("--query-compute-apps", o.query_apps, "fields of each session on each device")
      ->type_name("FIELDS");
  smi->add_option("--format", o.format, "of a query: csv[,noheader][,nounits]")
      ->type_name("FORMAT");
  smi->add_flag("--help-query-gpu", o.lists_fields, "list the fields");
  smi->add_option("-i,--id", o.device, "only this device: number, UUID or PCI address")
      ->type_name("DEVICE");
  smi->add_option("-l,--loop", o.interval_s, "again every so many seconds, until Ctrl-C")
      ->type_name("SECONDS")
      ->check(CLI::Range(0.1, 86'400.0));
  add_server_options(*smi, s);
  return smi;
}

int stats(Settings settings, const StatsOptions& options) {
  if (settings.command.empty() != options.files.empty()) {
    if (settings.command.empty()) return sluice::tool::show_stats(options);
    if (const auto place = sluice::tool::can_be_written(options); !place) {
      std::fprintf(stderr, "sluice stats: %s\n", place.error().message.c_str());
      return sluice::tool::kExitUsage;
    }
    settings.report = options;
    return sluice::tool::run(std::move(settings));
  }
  std::fprintf(stderr,
               "sluice stats: name files of SLUICE_STATS, or -- PROGRAM ARGS..., and not both\n");
  return sluice::tool::kExitUsage;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"sluice: runs unmodified CUDA programs on GPUs of another machine", "sluice"};
  app.footer("sluice COMMAND --help tells more. First try: sluice run --local -- PROGRAM");
  app.require_subcommand(1);
  app.set_version_flag("--version", std::string("sluice ") + sluice::kRelease);
  Settings settings;
  CLI::App* run = app.add_subcommand("run", "run a program; its CUDA calls go to the server");
  run->formatter(std::make_shared<Help>("Usage: sluice run [OPTIONS] -- PROGRAM ARGS..."));
  run->footer(
      "Exit status: the program's own, or 2 usage, 3 server unreachable or refusing, 4 program "
      "cannot be carried, 126 not executable, 127 not found");
  add_server_options(*run, settings);
  add_program(*run, settings);
  add_run_options(*run, settings);
  run->add_flag("--stats", settings.wants_stats,
                "print calls, round trips, bytes and GPU time afterwards");
  StatsOptions stats_options;
  const CLI::App* costs = add_stats(app, settings, stats_options);
  DoctorOptions doctor_options;
  const CLI::App* doctor = add_doctor(app, settings, doctor_options);
  SmiOptions smi_options;
  const CLI::App* smi = add_smi(app, settings, smi_options);
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
  if (smi->parsed()) return sluice::tool::smi(std::move(settings), smi_options);
  if (costs->parsed()) return stats(std::move(settings), stats_options);
  return doctor->parsed() ? sluice::tool::doctor(settings, doctor_options)
                          : sluice::tool::run(settings);
}
