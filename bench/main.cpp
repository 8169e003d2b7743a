// sluice-perf: what Sluice costs, each figure beside the raw limit measured in the same run.
#include "calls.h"
#include "channels.h"
#include "company.h"
#include "in_child.h"
#include "json.h"
#include "lanes.h"
#include "targets.h"
#include "tools/sluice/local_server.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>

namespace sluice::bench {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::vector<std::string> transports{"shm", "unix", "tcp"};
  std::vector<std::string> kinds{"loop", "shm", "unix", "tcp", "tcp-tls"};
  std::string output = "table";
  std::string io_uring = "auto";
  CallOptions calls;
  std::vector<unsigned> lanes;  ///< to be compared
  ChannelOptions channels;
};

fs::path bin_folder() {
  return fs::read_symlink("/proc/self/exe").parent_path();
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

/// A server of our own for `transport`, which the library finds in the environment.
class Server {
 public:
  static Result<Server> start(const std::string& transport, const Options& options) {
    const std::string driver = bin_folder() / "../lib/bench/libcuda.so.1";
    Server out;
    out.library_ = driver;
    if (transport == "none") return out;
    auto server =
        tool::LocalServer::start({.bin_folder = bin_folder().string(),
                                  .memory_limit = "",
                                  .use_tcp = transport.starts_with("tcp") || transport == "ucx",
                                  .use_tls = transport == "tcp-tls",
                                  .io_uring = options.io_uring,
                                  .driver = driver});
    if (!server) return fail(server.error());
    ::setenv("SLUICE_SERVER", server->address().c_str(), 1);
    ::setenv("SLUICE_TENANT", tool::LocalServer::kTenant, 1);
    ::setenv("SLUICE_TOKEN_FILE", server->token_file().c_str(), 1);
    ::setenv("SLUICE_TRANSPORT", transport == "tcp-tls" ? "tcp" : transport.c_str(), 1);
    ::setenv("SLUICE_TLS", transport == "tcp-tls" ? "on" : "off", 1);
    ::setenv("SLUICE_TLS_CA", server->ca_file().c_str(), 1);
    out.server_.emplace(std::move(*server));
    out.library_ = bin_folder() / "../lib/sluice/libcuda.so.1";
    return out;
  }
  [[nodiscard]] const std::string& library() const { return library_; }

 private:
  std::optional<tool::LocalServer> server_;
  std::string library_;
};

int give_up(const Error& error) {
  std::fprintf(stderr, "sluice-perf: %s\n", error.message.c_str());
  return 1;
}

int run_calls(Options options) {
  for (const std::string& transport : options.transports) {
    options.calls.transport = transport;
    const double load = load_average();
    const auto server = Server::start(transport, options);
    if (!server) return give_up(server.error());
    print(options.output, transport, load,
          options.lanes.empty()
              ? measure_in_child([&] { return measure_calls(server->library(), options.calls); })
              : measure_lanes(server->library(), options.calls, options.lanes));
  }
  return 0;
}

/// Enough of everything for the table of targets, in under two minutes.
int run_targets(Options options) {
  const double load = load_average();
  options.calls.rounds = 2'000;
  options.calls.launches = 50'000;
  options.calls.repeats = options.channels.repeats = 3;
  options.calls.copy_kib = {256 * 1024};
  options.channels.rounds = 2'000;
  std::vector<Measurement> measured;
  std::vector<Figure> driver_alone;
  for (const std::string transport : {"none", "shm", "tcp"}) {
    options.calls.transport = transport;
    options.calls.has_copies = transport != "none";
    const auto server = Server::start(transport, options);
    if (!server) return give_up(server.error());
    auto figures =
        measure_in_child([&] { return measure_calls(server->library(), options.calls); });
    if (transport == "none") {
      driver_alone = std::move(figures);
      continue;
    }
    figures.push_back(launch_in_worker(figures, driver_alone));
    for (Figure& f : measure_in_child([&] { return measure_company(server->library(), {}); }))
      figures.push_back(std::move(f));
    measured.push_back({transport, std::move(figures)});
  }
  for (const std::string kind : {"shm", "tcp", "tcp-tls"})
    measured.push_back({"channel " + kind, measure_channels(kind, options.channels)});
  print_targets(options.output, judge_targets(measured), load, load_average());
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
  app.add_option("--io-uring", o.io_uring, "of the server: auto, on, off")
      ->check(CLI::IsMember({"auto", "on", "off"}))
      ->capture_default_str();
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
  app.add_option("--lanes", o.lanes,
                 "copies only, with each of these numbers of lanes (SLUICE_LANES) in turn, each "
                 "beside the first")
      ->check(CLI::Range(0, 4))
      ->delimiter(',');
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
  const CLI::App* targets = app.add_subcommand(
      "targets", "what Sluice promises, beside what this host measures; takes up to two minutes");
  CLI11_PARSE(app, argc, argv);
  if (targets->parsed()) return run_targets(options);
  return channels->parsed() ? run_channels(options) : run_calls(options);
}

}  // namespace
}  // namespace sluice::bench

int main(int argc, char** argv) {
  return sluice::bench::run(argc, argv);
}
