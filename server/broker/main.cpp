// sluiced, the node daemon.
#include "common/log.h"
#include "server/broker/broker.h"
#include "server/config/config.h"

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

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{
      "sluiced: serves this machine's GPUs, or a software GPU, to tenants.\nExit status: 0 stopped "
      "by a signal, 2 configuration, 4 address in use, 1 other errors."};
  std::string config_path, driver, log_level, stats_file;
  std::vector<std::string> listen;
  int ready_fd = -1;
  bool check_only = false;
  app.add_option("--config", config_path, "configuration file (TOML)");
  app.add_option("--driver", driver,
                 "libcuda.so.1 to serve, or its folder (default: the system's, else softgpu)");
  app.add_option("--listen", listen, "unix:PATH or HOST[:PORT]; repeatable; replaces the file's");
  app.add_option("--log-level", log_level, "trace, debug, info, warn, error or off");
  app.add_option("--stats-file", stats_file, "append one JSON line for every closed session");
  app.add_option("--print-ready-fd", ready_fd,
                 "write \"ready ADDRESSES\" to this descriptor when serving");
  app.add_flag("--check", check_only, "check the configuration and exit");
  app.set_version_flag("--version", "sluiced 0.1.0");
  CLI11_PARSE(app, argc, argv);

  config::Config configuration;
  if (!config_path.empty()) {
    auto loaded = config::load(config_path);
    if (!loaded) return refuse(loaded.error());
    configuration = std::move(*loaded);
  }
  if (!driver.empty()) configuration.driver = driver;
  if (!log_level.empty()) configuration.log_level = log_level;
  if (!stats_file.empty()) configuration.stats_file = stats_file;
  if (!listen.empty()) {
    configuration.listen.clear();
    for (const std::string& text : listen) {
      auto address = transport::parse_address(text);
      if (!address) return refuse(address.error());
      configuration.listen.push_back(*address);
    }
  }
  if (const auto checked = config::check(configuration); !checked) return refuse(checked.error());
  auto resolved = resolve_driver(configuration.driver);
  if (!resolved) return refuse(resolved.error());
  configuration.driver = *resolved;
  if (check_only) {
    std::printf("the configuration is right: %zu tenants, driver %s\n",
                configuration.tenants.size(), configuration.driver.c_str());
    return 0;
  }
  log_open("sluiced", configuration.log_level, LogLevel::kInfo, "");
  ::signal(SIGPIPE, SIG_IGN);
  const std::string driver_path = configuration.driver;
  server::Broker broker({std::move(configuration), (own_folder() / "sluice-worker").string()});
  if (const auto opened = broker.open(); !opened) return refuse(opened.error());
  std::string addresses;
  for (const std::string& address : broker.addresses()) addresses += " " + address;
  SLUICE_LOG_INFO("session", "serving{} driver={}", addresses, driver_path);
  if (ready_fd >= 0) {
    const std::string line = "ready" + addresses + "\n";
    if (::write(ready_fd, line.data(), line.size()) < 0)
      SLUICE_LOG_WARN("session", "the ready descriptor cannot be written");
    ::close(ready_fd);
  }
  const auto ended = broker.run();
  if (!ended) {
    SLUICE_LOG_ERROR("session", "{}", ended.error().message);
    return 1;
  }
  return 0;
}
