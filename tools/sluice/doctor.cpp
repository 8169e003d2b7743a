#include "tools/sluice/doctor.h"

#include "tools/sluice/client_config.h"
#include "tools/sluice/doctor/findings.h"
#include "tools/sluice/doctor/host.h"
#include "tools/sluice/doctor/server_check.h"
#include "tools/sluice/exit_codes.h"
#include "tools/sluice/preflight.h"
#include "tools/sluice/probe.h"
#include "transport/ucx/library.h"

#include <unistd.h>

#include <filesystem>

namespace sluice::tool {
namespace {

namespace fs = std::filesystem;

fs::path library_folder() {
  return fs::weakly_canonical(fs::read_symlink("/proc/self/exe").parent_path() / "../lib/sluice");
}

bool check_libraries(Findings& findings) {
  const fs::path folder = library_folder();
  for (const char* name : {"libsluice.so", "libcuda.so.1"})
    if (::access((folder / name).c_str(), R_OK) != 0) {
      findings.bad("libraries", kExitUsage,
                   (folder / name).string() + " is missing; install Sluice again");
      return false;
    }
  findings.good("libraries", folder.string());
  return true;
}

void check_program(const std::string& program, Findings& findings) {
  const Preflight checked = preflight(program);
  for (std::size_t i = 0; i < checked.files.size(); ++i) {
    const bool is_last = i + 1 == checked.files.size();
    if (is_last && checked.problem) break;
    findings.good(i == 0 ? "program" : "interpreter", checked.files[i]);
  }
  if (checked.problem)
    findings.bad(checked.files.size() > 1 ? "interpreter" : "program", checked.problem->exit_code,
                 checked.problem->message);
}

/// Every key that a session would fill, so that a reader finds all of them in any case.
void promise_keys(Findings& findings) {
  for (const char* key : {"server", "versions", "clock", "session", "transport", "round_trip_us",
                          "synchronize_us", "launches", "path", "prediction", "host"})
    findings.set(key, nullptr);
  for (const char* key : {"transports", "copies", "not_measured"})
    findings.set(key, nlohmann::json::array());
}

/// The transport that a session used; empty: there was none.
std::string check_way(const Settings& settings, const ServerCheck& check, Findings& findings) {
  if (const std::string wrong = wrong_link(settings); !wrong.empty()) {
    findings.bad("transport", kExitUsage, wrong);
    return "";
  }
  if (settings.is_local) {
    check_transport(settings, findings);
    return "";
  }
  if (settings.server.empty()) {
    findings.bad("server", kExitUsage,
                 "none named: --server, SLUICE_SERVER, or server in " + client_config_path() +
                     "; `sluice run --local` needs none");
    return "";
  }
  // A wish that this host cannot fulfil needs no server to be refused.
  if (settings.transport == "ucx")
    if (const auto ucx = transport::ucx::check_host(); !ucx) {
      findings.bad("transport", kExitUsage, "ucx: " + ucx.error().message);
      return "";
    }
  return check_server(settings, check, findings);
}

}  // namespace

int doctor(Settings settings, const DoctorOptions& options) {
  Findings findings(options.output == "json");
  promise_keys(findings);
  const auto completed = complete(settings);
  if (!completed) {
    findings.bad("configuration", kExitUsage, completed.error().message);
  } else {
    settings = *completed;
    findings.good("configuration", settings.config_file.empty()
                                       ? "no " + client_config_path() + " (none is needed)"
                                       : settings.config_file);
  }
  const bool has_libraries = check_libraries(findings);
  const std::string used =
      check_way(settings,
                {.library = (library_folder() / "libcuda.so.1").string(),
                 .measures = options.measures && has_libraries && completed.has_value()},
                findings);
  const Host host = read_host();
  findings.set("host", to_json(host));
  judge_host(host, used == "ucx", findings);
  if (!settings.command.empty()) check_program(settings.command[0], findings);
  findings.finish();
  return findings.code();
}

}  // namespace sluice::tool
