// sluicectl, the administrator's tool: checks configurations, makes tokens, and controls a running
// server over its UNIX socket.
#include "common/duration.h"
#include "common/percent.h"
#include "common/read_file.h"
#include "common/release.h"
#include "common/size.h"
#include "server/config/config.h"
#include "tools/sluicectl/bench.h"
#include "tools/sluicectl/cert/command.h"
#include "tools/sluicectl/commands.h"
#include "tools/sluicectl/usage.h"

#include <CLI/CLI.hpp>

#include <cstdio>
#include <functional>

namespace sluice::tool {
namespace {

/// Everything that the command line can say.
struct Options {
  std::string socket, output = "table";
  std::string name, file, memory, idle_timeout, max_duration, interval = "1s";
  std::string compute, compute_limit, cls;
  double weight = -1;
  std::int64_t max_sessions = -1;
  std::vector<std::uint64_t> sessions;
  bool is_forced = false, is_once = false;
};

int check_file(const std::string& path) {
  const auto loaded = config::load(path);
  if (!loaded) return refuse({ErrorCode::kInvalidArgument, loaded.error().message});
  if (const auto checked = config::check(*loaded); !checked) return refuse(checked.error());
  std::printf("%s is right: %zu tenants, %zu listen addresses\n", path.c_str(),
              loaded->tenants.size(), loaded->listen.size());
  return 0;
}

int make_token() {
  const auto fresh = config::new_token();
  if (!fresh) return refuse(fresh.error());
  std::printf("token (give it to the tenant, mode 0600): %s\ntoken_sha256 = \"%s\"\n",
              fresh->c_str(), config::hash_text(config::hash_token(*fresh)).c_str());
  return 0;
}

int print_hash(const std::string& file) {
  const auto read = read_token_file(file);
  if (!read) return refuse({ErrorCode::kInvalidArgument, read.error().message});
  std::printf("token_sha256 = \"%s\"\n", config::hash_text(config::hash_token(*read)).c_str());
  return 0;
}

/// Says which option a value was wrong for.
template <class T>
Result<T> named(const char* option, Result<T> value) {
  if (value) return value;
  return fail(value.error().with_context(option));
}

Result<config::TenantOverride> change_of(const Options& options) {
  config::TenantOverride out;
  if (!options.memory.empty()) {
    SLUICE_TRY(out.memory_limit_bytes, named("--memory", parse_size(options.memory)));
  }
  if (!options.compute.empty()) {
    SLUICE_TRY(out.share.guarantee, named("--compute", parse_percent(options.compute)));
  }
  if (!options.compute_limit.empty()) {
    SLUICE_TRY(out.share.limit, named("--compute-limit", parse_percent(options.compute_limit)));
  }
  if (!options.cls.empty()) {
    SLUICE_TRY(out.share.cls, named("--class", config::parse_class(options.cls)));
  }
  if (options.weight >= 0) out.share.weight = options.weight;
  if (options.max_sessions >= 0)
    out.max_sessions = static_cast<std::uint32_t>(options.max_sessions);
  if (!options.idle_timeout.empty()) {
    SLUICE_TRY(out.idle_timeout, named("--idle-timeout", parse_duration(options.idle_timeout)));
  }
  if (!options.max_duration.empty()) {
    SLUICE_TRY(out.max_duration, named("--max-duration", parse_duration(options.max_duration)));
  }
  return out;
}

int set_with(Session session, const Options& options) {
  const auto change = change_of(options);
  return change ? set_tenant(session, options.name, *change) : refuse(change.error());
}

int top_with(Session session, const Options& options) {
  const auto interval = named("--interval", parse_duration(options.interval));
  if (!interval) return refuse(interval.error());
  if (interval->count() < 10)
    return refuse({ErrorCode::kInvalidArgument, "--interval: at least 10ms, e.g. 1s"});
  return top(session, *interval, options.is_once);
}

int kill_with(Session session, const Options& options) {
  if (options.sessions.empty() == options.name.empty())
    return refuse({ErrorCode::kInvalidArgument, "name sessions (sluicectl ps) or a --tenant"});
  return options.name.empty() ? kill_sessions(session, options.sessions)
                              : kill_tenant(session, options.name);
}

/// One command of the tool: what it needs, and what it does.
struct Command {
  const CLI::App* app;
  std::function<int()> alone;             ///< without a server
  std::function<int(Session)> on_server;  ///< or with one
};

using Commands = std::vector<Command>;

void add_tenant_commands(CLI::App& app, Options& o, Commands& commands) {
  CLI::App* tenant = app.add_subcommand("tenant", "who may use the server, and how much");
  tenant->require_subcommand(1)->fallthrough();
  CLI::App* set =
      tenant->add_subcommand("set", "make a tenant, or change what is given")->fallthrough();
  set->add_option("name", o.name, "the tenant's name")->required();
  set->add_option("--memory", o.memory, "slice of each device, e.g. 4GiB; 0: the whole device")
      ->type_name("SIZE");
  set->add_option("--compute", o.compute,
                  "the part of each device's time that it gets at least, e.g. 30%; 0%: none")
      ->type_name("PERCENT");
  set->add_option("--compute-limit", o.compute_limit,
                  "the part that it never gets more of, e.g. 80%; 100%: no limit")
      ->type_name("PERCENT");
  set->add_option("--weight", o.weight, "its part of what is left, against the others' (default 1)")
      ->check(CLI::Range(scheduler::kWeightMin, scheduler::kWeightMax))
      ->type_name("N");
  set->add_option("--class,--priority", o.cls,
                  "who goes first: best-effort, standard (default), interactive or realtime")
      ->type_name("CLASS");
  set->add_option("--max-sessions", o.max_sessions, "sessions at the same time")
      ->check(CLI::Range(0u, config::kSessionCountMax))
      ->type_name("N");
  set->add_option("--idle-timeout", o.idle_timeout,
                  "end a session after so long without a CUDA call, e.g. 10m, or none")
      ->type_name("TIME");
  set->add_option("--max-duration", o.max_duration,
                  "end a session that is so old, e.g. 8h, or none")
      ->type_name("TIME");
  commands.push_back({set, {}, [&o](Session s) { return set_with(s, o); }});
  CLI::App* show = tenant->add_subcommand("show", "one tenant")->fallthrough();
  show->add_option("name", o.name, "the tenant's name")->required();
  commands.push_back({show, {}, [&o](Session s) { return show_tenant(s, o.name); }});
  CLI::App* list = tenant->add_subcommand("list", "all tenants")->fallthrough();
  commands.push_back({list, {}, list_tenants});
  CLI::App* remove = tenant->add_subcommand("rm", "let a tenant in no more")->fallthrough();
  remove->add_option("name", o.name, "the tenant's name")->required();
  remove->add_flag("--force", o.is_forced, "also if it has sessions; they are ended");
  commands.push_back(
      {remove, {}, [&o](Session s) { return remove_tenant(s, o.name, o.is_forced); }});
}

void add_token_commands(CLI::App& app, Options& o, Commands& commands) {
  CLI::App* token = app.add_subcommand("token", "tenants' tokens");
  token->require_subcommand(1)->fallthrough();
  CLI::App* make = token
                       ->add_subcommand("new",
                                        "a new token for a tenant of the running server, on "
                                        "stdout; without a tenant: a token "
                                        "and its line for sluiced.toml")
                       ->fallthrough();
  make->add_option("tenant", o.name, "the tenant's name");
  commands.push_back({make, [&o] { return o.name.empty() ? make_token() : -1; },
                      [&o](Session s) { return new_token(s, o.name); }});
  CLI::App* revoke =
      token
          ->add_subcommand(
              "revoke",
              "let nobody in with the tenant's token; sessions go on (sluicectl kill ends them)")
          ->fallthrough();
  revoke->add_option("tenant", o.name, "the tenant's name")->required();
  commands.push_back({revoke, {}, [&o](Session s) { return revoke_token(s, o.name); }});
  CLI::App* hash =
      token->add_subcommand("hash", "the token_sha256 line of a token file")->fallthrough();
  hash->add_option("file", o.file, "the tenant's token file")->required();
  commands.push_back({hash, [&o] { return print_hash(o.file); }, {}});
}

void add_session_commands(CLI::App& app, Options& o, Commands& commands) {
  CLI::App* ps =
      app.add_subcommand("ps", "the sessions: who, for how long, what they hold")->fallthrough();
  commands.push_back({ps, {}, list_sessions});
  CLI::App* kill =
      app.add_subcommand("kill", "end sessions; their programs get an error")->fallthrough();
  kill->add_option("session", o.sessions, "numbers, as ps shows them");
  kill->add_option("--tenant", o.name, "all sessions of this tenant")->type_name("NAME");
  commands.push_back({kill, {}, [&o](Session s) { return kill_with(s, o); }});
  CLI::App* live = app.add_subcommand("top", "who uses how much, live; q ends it")->fallthrough();
  live->add_flag("--once", o.is_once, "one look (of one interval), then end");
  live->add_option("--interval", o.interval, "between looks, at least 10ms (default 1s)")
      ->type_name("TIME");
  commands.push_back({live, {}, [&o](Session s) { return top_with(s, o); }});
}

void add_config_commands(CLI::App& app, Options& o, Commands& commands) {
  CLI::App* configuration = app.add_subcommand("config", "configuration files");
  configuration->require_subcommand(1)->fallthrough();
  CLI::App* check =
      configuration
          ->add_subcommand("check", "check a file, without a server; 0 if it is right, 2 if not")
          ->fallthrough();
  check->add_option("file", o.file, "as sluiced --config would read it")->required();
  commands.push_back({check, [&o] { return check_file(o.file); }, {}});
  CLI::App* again =
      configuration
          ->add_subcommand("reload",
                           "have the server read its file again; a wrong file changes nothing")
          ->fallthrough();
  commands.push_back({again, {}, reload});
}

void add_cert_commands(CLI::App& app, CertOptions& o, Commands& commands) {
  CLI::App* cert = app.add_subcommand("cert", "certificates for TLS: a small CA of your own");
  cert->require_subcommand(1)->fallthrough();
  CLI::App* init =
      cert->add_subcommand("init",
                           "make a CA, if the folder has none, and a server certificate by it")
          ->fallthrough();
  init->add_option("folder", o.folder, "for ca.crt, ca.key, server.crt, server.key")->required();
  init->add_option("--host", o.hosts,
                   "name or IP address that clients use for the server; repeatable (default: this "
                   "machine's name)")
      ->type_name("NAME|IP");
  init->add_option("--days", o.days, "how long the server certificate is valid (default 825)")
      ->check(CLI::Range(1, 3650))
      ->type_name("N");
  init->add_flag("--force", o.is_forced, "replace a server certificate that is there");
  commands.push_back({init, [&o] { return init_certificates(o); }, {}});
  CLI::App* issue =
      cert->add_subcommand("issue", "make a client certificate for a tenant")->fallthrough();
  issue->add_option("folder", o.folder, "of cert init")->required();
  issue->add_option("--tenant", o.tenant, "whose certificate it is")->required()->type_name("NAME");
  issue->add_option("--days", o.days, "how long it is valid (default 365)")
      ->check(CLI::Range(1, 3650))
      ->type_name("N");
  issue->add_flag("--force", o.is_forced, "replace one that is there");
  commands.push_back({issue, [&o] { return issue_certificate(o); }, {}});
}

void add_bench_commands(CLI::App& app, Options& o, Commands& commands) {
  CLI::App* bench = app.add_subcommand("bench", "measurements");
  bench->require_subcommand(1)->fallthrough();
  CLI::App* quota =
      bench
          ->add_subcommand("quota",
                           "what tenants are promised of a device's time, measured in virtual time "
                           "beside a device without quotas; needs no server")
          ->fallthrough();
  commands.push_back({quota, [&o] { return bench_quota(o.output == "json"); }, {}});
}

void add_usage_command(CLI::App& app, UsageOptions& o, Options& general, Commands& commands) {
  CLI::App* used =
      app.add_subcommand("usage",
                         "GPU time and memory that tenants used and had reserved, also in earlier "
                         "lives of the server")
          ->fallthrough();
  used->add_option("--from", o.from, "first hour, UTC (default: the first of this month)")
      ->type_name("DATE[THH:00]");
  used->add_option("--to", o.to, "first hour not included (default: up to now)")
      ->type_name("DATE[THH:00]");
  used->add_option("--by", o.by,
                   "a line for each of tenant, gpu, month, day, hour (default tenant)")
      ->delimiter(',')
      ->type_name("WORD,...");
  used->add_option("--tenant", o.tenant, "this tenant only")->type_name("NAME");
  CLI::Option* csv = used->add_flag("--csv", o.as_csv, "comma-separated, with a line of titles");
  used->add_flag_callback(
          "--json", [&general] { general.output = "json"; }, "as -o json")
      ->excludes(csv);
  commands.push_back({used, {}, [&o](Session s) { return usage(s, o); }});
}

int run(const Command& command, const Options& options) {
  if (command.alone) {
    const int status = command.alone();
    if (status >= 0) return status;
  }
  auto client = connect(options.socket);
  if (!client) {
    std::fprintf(stderr, "sluicectl: %s\n", client.error().message.c_str());
    return kExitUnreachable;
  }
  return command.on_server({**client, options.output == "json"});
}

}  // namespace
}  // namespace sluice::tool

int main(int argc, char** argv) {
  using namespace sluice::tool;
  CLI::App app{"sluicectl: administration of a Sluice server; runs on its machine", "sluicectl"};
  app.footer(
      "sluicectl COMMAND --help tells more. --socket and -o may stand anywhere.\nExit status: 0 "
      "done, 1 the server refuses, 2 usage or a wrong configuration file, 3 server unreachable.");
  app.require_subcommand(1);
  app.set_version_flag("--version", std::string("sluicectl ") + sluice::kRelease);
  Options options;
  app.add_option("--socket", options.socket,
                 "the server's control socket (default: SLUICE_CONTROL, else "
                 "/run/sluice/sluiced.sock.control or the same below $XDG_RUNTIME_DIR)")
      ->type_name("PATH");
  app.add_option("-o,--output", options.output, "table or json")
      ->check(CLI::IsMember({"table", "json"}));
  Commands commands;
  add_tenant_commands(app, options, commands);
  add_token_commands(app, options, commands);
  add_session_commands(app, options, commands);
  add_config_commands(app, options, commands);
  add_bench_commands(app, options, commands);
  UsageOptions usage_options;
  add_usage_command(app, usage_options, options, commands);
  CertOptions cert_options;
  add_cert_commands(app, cert_options, commands);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kExitWrong;
  }
  for (const Command& command : commands)
    if (command.app->parsed()) return run(command, options);
  return kExitWrong;
}
