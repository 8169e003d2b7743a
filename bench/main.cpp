// sluice-perf: what Sluice costs, each figure beside the raw limit measured in the same run.
#include "calls.h"
#include "channels.h"
#include "tools/sluice/local_server.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace sluice::bench {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::vector<std::string> transports{"shm", "unix", "tcp"};
  std::vector<std::string> kinds{"loop", "shm", "unix", "tcp", "tcp-tls"};
  std::string output = "table";
  CallOptions calls;
  ChannelOptions channels;
};

fs::path bin_folder() {
  return fs::read_symlink("/proc/self/exe").parent_path();
}

nlohmann::json to_json(const Figure& f) {
  return {{"name", f.name},         {"value", f.value}, {"unit", f.unit},
          {"raw_name", f.raw_name}, {"raw", f.raw},     {"ratio", f.ratio()}};
}

Figure from_json(const nlohmann::json& f) {
  return {f.at("name"), f.at("unit"), f.at("value"), f.at("raw_name"), f.at("raw")};
}

double load_average() {
  double load = 0;
  std::ifstream("/proc/loadavg") >> load;
  return load;
}

/// One line per figure, or one JSON object per transport.
void print(const std::string& output, const std::string& transport, double load_before,
           const std::vector<Figure>& figures) {
  if (output == "json") {
    nlohmann::json list = nlohmann::json::array();
    for (const Figure& f : figures) list.push_back(to_json(f));
    std::printf("%s\n", nlohmann::json{{"transport", transport},
                                       {"load_before", load_before},
                                       {"load_after", load_average()},
                                       {"figures", list}}
                            .dump()
                            .c_str());
  } else {
    std::printf("%s (load average %.1f before, %.1f after)\n", transport.c_str(), load_before,
                load_average());
    for (const Figure& f : figures)
      std::printf("  %-28s %10.3f %-5s  ratio %6.2f  raw %10.3f %s\n", f.name.c_str(), f.value,
                  f.unit.c_str(), f.ratio(), f.raw, f.raw_name.c_str());
  }
  std::fflush(stdout);
}

/// In a process of its own: a client library serves one session, and its end is the process's.
std::vector<Figure> measure_in_child(const std::string& library, const CallOptions& calls) {
  int ends[2];
  if (::pipe(ends) != 0) std::abort();
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::close(ends[0]);
    nlohmann::json list = nlohmann::json::array();
    for (const Figure& f : measure_calls(library, calls)) list.push_back(to_json(f));
    const std::string text = list.dump();
    if (::write(ends[1], text.data(), text.size()) != static_cast<ssize_t>(text.size()))
      std::_Exit(1);
    std::exit(0);
  }
  ::close(ends[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t got = 0; (got = ::read(ends[0], buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<std::size_t>(got));
  ::close(ends[0]);
  int status = 0;
  ::waitpid(pid, &status, 0);
  if (status != 0) std::exit(1);
  std::vector<Figure> out;
  for (const auto& f : nlohmann::json::parse(text)) out.push_back(from_json(f));
  return out;
}

int run_calls(Options options) {
  const std::string driver = bin_folder() / "../lib/bench/libcuda.so.1";
  for (const std::string& transport : options.transports) {
    options.calls.transport = transport;
    const double load = load_average();
    if (transport == "none") {
      print(options.output, transport, load, measure_in_child(driver, options.calls));
      continue;
    }
    auto server =
        tool::LocalServer::start({.bin_folder = bin_folder().string(),
                                  .memory_limit = "",
                                  .use_tcp = transport.starts_with("tcp") || transport == "ucx",
                                  .use_tls = transport == "tcp-tls",
                                  .driver = driver});
    if (!server) {
      std::fprintf(stderr, "sluice-perf: %s\n", server.error().message.c_str());
      return 1;
    }
    ::setenv("SLUICE_SERVER", server->address().c_str(), 1);
    ::setenv("SLUICE_TENANT", tool::LocalServer::kTenant, 1);
    ::setenv("SLUICE_TOKEN_FILE", server->token_file().c_str(), 1);
    ::setenv("SLUICE_TRANSPORT", transport == "tcp-tls" ? "tcp" : transport.c_str(), 1);
    ::setenv("SLUICE_TLS", transport == "tcp-tls" ? "on" : "off", 1);
    ::setenv("SLUICE_TLS_CA", server->ca_file().c_str(), 1);
    const std::string client = bin_folder() / "../lib/sluice/libcuda.so.1";
    print(options.output, transport, load, measure_in_child(client, options.calls));
  }
  return 0;
}

int run_channels(const Options& options) {
  for (const std::string& kind : options.kinds) {
    const double load = load_average();
    print(options.output, "channel " + kind, load, measure_channels(kind, options.channels));
  }
  return 0;
}

void add_call_options(CLI::App& app, Options& o) {
  app.add_option("--transport", o.transports,
                 "shm, unix, tcp, tcp-tls, ucx, none (the stand-in driver alone)")
      ->check(CLI::IsMember({"shm", "unix", "tcp", "tcp-tls", "ucx", "none"}))
      ->delimiter(',');
  app.add_option("--rounds", o.calls.rounds, "synchronised calls per measurement")
      ->check(CLI::Range(1, 100'000'000))
      ->capture_default_str();
  app.add_option("--launches", o.calls.launches, "launches per measurement")
      ->check(CLI::Range(64, 100'000'000))
      ->capture_default_str();
  app.add_option("--copy-kib", o.calls.copy_kib, "sizes of copies")
      ->check(CLI::Range(1, 16 * 1024 * 1024))
      ->delimiter(',')
      ->capture_default_str();
  app.add_flag("!--no-calls", o.calls.has_calls, "copies only");
  app.add_flag("!--no-copies", o.calls.has_copies, "calls only");
  app.add_option("--repeats", o.calls.repeats, "measurements of which the median counts")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
}

void add_channel_options(CLI::App& app, Options& o) {
  app.add_option("--kind", o.kinds, "loop, shm, unix, tcp, tcp-tls, ucx")
      ->check(CLI::IsMember({"loop", "shm", "unix", "tcp", "tcp-tls", "ucx"}))
      ->delimiter(',');
  app.add_option("--bytes", o.channels.message_bytes, "bytes of a message or command")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  app.add_option("--rounds", o.channels.rounds, "round trips per measurement")
      ->check(CLI::Range(1, 100'000'000))
      ->capture_default_str();
  app.add_option("--commands", o.channels.command_count, "commands per measurement")
      ->check(CLI::Range(1, 1'000'000'000))
      ->capture_default_str();
  app.add_option("--batch", o.channels.batch, "commands per flush")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  app.add_option("--bulk-mib", o.channels.bulk_mib, "MiB per bulk transfer, 0 = none")
      ->check(CLI::Range(0, 65'536))
      ->capture_default_str();
  app.add_option("--staging-kib", o.channels.staging_kib, "staging buffer of the raw bulk stream")
      ->check(CLI::Range(1, 65'536))
      ->capture_default_str();
  app.add_option("--repeats", o.channels.repeats, "measurements of which the median counts")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
}

int run(int argc, char** argv) {
  Options options;
  CLI::App app(
      "What CUDA calls cost through Sluice, on a driver that costs nothing and a server of its "
      "own. "
      "Each figure stands beside the raw limit measured in turn with it: the ratio is what says "
      "something, the absolute value speaks of the machine.",
      "sluice-perf");
  app.add_option("-o,--output", options.output, "table or json (one object per line)")
      ->check(CLI::IsMember({"table", "json"}))
      ->capture_default_str();
  app.fallthrough();
  app.require_subcommand(0, 1);
  add_call_options(app, options);
  CLI::App* channels = app.add_subcommand(
      "channels",
      "the channels by themselves, both ends in one process, beside a plain socket or UCX alone");
  add_channel_options(*channels, options);
  CLI11_PARSE(app, argc, argv);
  return channels->parsed() ? run_channels(options) : run_calls(options);
}

}  // namespace
}  // namespace sluice::bench

int main(int argc, char** argv) {
  return sluice::bench::run(argc, argv);
}
