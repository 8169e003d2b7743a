// sluiced, the node daemon.
#include "common/log.h"
#include "common/release.h"
#include "server/broker/broker.h"
#include "server/config/config.h"
#include "server/control/service.h"
#include "server/metrics/exporter.h"
#include "transport/ucx/library.h"

#include <CLI/CLI.hpp>
#include <dlfcn.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>

namespace {

using namespace sluice;
namespace fs = std::filesystem;

fs::path own_folder() {
  return fs::read_symlink("/proc/self/exe").parent_path();
}

/// A file, a folder that holds libcuda.so.1, or, for an empty wish, the system's driver, else
/// softgpu beside us.
Result<std::string> resolve_driver(const std::string& wish) {
  std::error_code none;
  if (!wish.empty()) {
    const fs::path path =
        fs::is_directory(wish, none) ? fs::path(wish) / "libcuda.so.1" : fs::path(wish);
    if (!fs::exists(path, none))
      return fail(ErrorCode::kNotFound, "driver path " + wish +
                                            ": there is no libcuda.so.1; name the file or its "
                                            "folder (--driver, or driver in [server])");
    return fs::absolute(path, none).string();
  }
  const fs::path softgpu = own_folder() / "../lib/softgpu/libcuda.so.1";
  void* system = ::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (system != nullptr) {
    char origin[4096] = {};
    if (::dlinfo(system, RTLD_DI_ORIGIN, origin) == 0) return std::string(origin) + "/libcuda.so.1";
  }
  if (fs::exists(softgpu, none)) return fs::canonical(softgpu, none).string();
  return fail(ErrorCode::kNotFound,
              "no driver: this machine has no libcuda.so.1 and softgpu is not beside sluiced; use "
              "--driver PATH");
}

int refuse(const Error& error) {
  std::fprintf(stderr, "sluiced: %s\n", error.message.c_str());
  return error.code == ErrorCode::kExhausted ? 4 : 2;
}

struct Options {
  std::string config_file, driver, log_level, stats_file, worker;
  std::vector<std::string> listen;
  int ready_fd = -1;
  bool is_check_only = false, lists_transports = false;
};

/// The file with the command line on top; also what SIGHUP reads again.
Result<config::Config> configuration_of(const Options& options) {
  config::Config out;
  if (!options.config_file.empty()) {
    SLUICE_TRY(out, config::load(options.config_file));
  }
  if (!options.driver.empty()) out.driver = options.driver;
  if (!options.log_level.empty()) out.log_level = options.log_level;
  if (!options.stats_file.empty()) out.stats_file = options.stats_file;
  if (!options.listen.empty()) out.listen.clear();
  for (const std::string& text : options.listen) {
    SLUICE_TRY(transport::Address address, transport::parse_address(text));
    out.listen.push_back(std::move(address));
  }
  SLUICE_CHECK(config::check(out));
  SLUICE_TRY(out.driver, resolve_driver(out.driver));
  return out;
}

/// Whoever asked for a path gets it or an error; a default path that cannot be used is left out.
Result<std::unique_ptr<server::control::Service>> start_control(const config::Config& config,
                                                                server::Broker& broker) {
  const std::string path = config::control_socket(config);
  if (path.empty()) return nullptr;
  auto service = server::control::Service::start(
      path, config.control.group, broker,
      [&broker](std::function<void()> what) { broker.post(std::move(what)); });
  if (service || !config.control.socket.empty() || !config.control.group.empty()) return service;
  SLUICE_LOG_WARN("session", "no control: {}; name a socket in [control]", service.error().message);
  return nullptr;
}

Result<std::unique_ptr<server::metrics::Exporter>> start_metrics(const config::Config& config,
                                                                 server::Broker& broker) {
  if (config.metrics.listen.empty()) return nullptr;
  return server::metrics::Exporter::start(
      config.metrics.listen, broker,
      [&broker](std::function<void()> what) { broker.post(std::move(what)); });
}

void say_ready(int fd, const std::string& addresses) {
  const std::string line = "ready" + addresses + "\n";
  if (::write(fd, line.data(), line.size()) < 0)
    SLUICE_LOG_WARN("session", "the ready descriptor cannot be written");
  ::close(fd);
}

int serve(const Options& options, config::Config configuration) {
  log_open("sluiced", configuration.log_level, LogLevel::kInfo, "");
  ::signal(SIGPIPE, SIG_IGN);
  server::BrokerOptions broker_options;
  broker_options.config = configuration;
  broker_options.worker_executable =
      options.worker.empty() ? (own_folder() / "sluice-worker").string() : options.worker;
  broker_options.config_file = options.config_file;
  broker_options.takes_inventory = true;
  if (!options.config_file.empty())
    broker_options.reload = [options] { return configuration_of(options); };
  server::Broker broker(std::move(broker_options));
  if (const auto opened = broker.open(); !opened) return refuse(opened.error());
  auto control = start_control(configuration, broker);  // ends before the broker does
  if (!control) return refuse(control.error());
  auto metrics = start_metrics(configuration, broker);  // so does this
  if (!metrics) return refuse(metrics.error());
  std::string addresses;
  for (const std::string& address : broker.addresses()) addresses += " " + address;
  SLUICE_LOG_INFO("session", "serving{} driver={} control={}", addresses, configuration.driver,
                  *control != nullptr ? config::control_socket(configuration) : "none");
  if (options.ready_fd >= 0) say_ready(options.ready_fd, addresses);
  const auto ended = broker.run();
  if (ended) return 0;
  SLUICE_LOG_ERROR("session", "{}", ended.error().message);
  return 1;
}

/// What this machine can carry sessions over; who gets what is agreed with each client.
void list_transports() {
  std::printf("shm   clients on this host\nunix  clients on this host\ntcp   clients anywhere\n");
  const auto ucx = transport::ucx::describe_host();
  std::printf("ucx   %s%s\n", ucx ? "clients with RDMA: " : "no: ",
              ucx ? ucx->c_str() : ucx.error().message.c_str());
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"sluiced: serves this machine's GPUs, or a software GPU, to tenants.", "sluiced"};
  app.footer(
      "SIGHUP reads the "
      "configuration again, SIGTERM stops (drain_timeout).\nExit status: 0 stopped by a signal, 2 "
      "usage or configuration, 4 address in use, 1 other errors.");
  Options options;
  app.add_option("--config", options.config_file, "configuration file (TOML)");
  app.add_option("--driver", options.driver,
                 "libcuda.so.1 to serve, or its folder (default: the system's, else softgpu)");
  app.add_option("--listen", options.listen,
                 "unix:PATH or HOST[:PORT]; repeatable; replaces the file's");
  app.add_option("--log-level", options.log_level, "trace, debug, info, warn, error or off");
  app.add_option("--stats-file", options.stats_file,
                 "append one JSON line for every closed session");
  app.add_option("--worker", options.worker,
                 "sluice-worker to start for every session (default: beside sluiced)");
  app.add_option("--print-ready-fd", options.ready_fd,
                 "write \"ready ADDRESSES\" to this descriptor when serving");
  app.add_flag("--check", options.is_check_only, "check the configuration and exit");
  app.add_flag("--list-transports", options.lists_transports,
               "say what can carry sessions on this machine, and why not what cannot, and exit");
  app.set_version_flag("--version", std::string("sluiced ") + kRelease);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (options.lists_transports) {
    list_transports();
    return 0;
  }
  auto configuration = configuration_of(options);
  if (!configuration) return refuse(configuration.error());
  if (!options.is_check_only) return serve(options, std::move(*configuration));
  std::printf("the configuration is right: %zu tenants, driver %s\n", configuration->tenants.size(),
              configuration->driver.c_str());
  return 0;
}
