#include "tools/sluice/doctor.h"

#include "tools/sluice/client_config.h"
#include "tools/sluice/exit_codes.h"
#include "tools/sluice/preflight.h"
#include "tools/sluice/probe.h"
#include "transport/ucx/library.h"

#include <unistd.h>

#include <cstdio>
#include <filesystem>

namespace sluice::tool {
namespace {

namespace fs = std::filesystem;

/// Collects the lines; the first problem decides the exit status.
class Findings {
 public:
  void good(const char* what, const std::string& text) { line("ok", what, text); }
  void bad(const char* what, int code, const std::string& text) {
    line("problem", what, text);
    if (code_ == 0) code_ = code;
  }
  [[nodiscard]] int code() const { return code_; }

 private:
  static void line(const char* state, const char* what, const std::string& text) {
    std::printf("%-8s %-14s %s\n", state, what, text.c_str());
  }
  int code_ = 0;
};

void check_libraries(Findings& findings) {
  const fs::path folder =
      fs::weakly_canonical(fs::read_symlink("/proc/self/exe").parent_path() / "../lib/sluice");
  for (const char* name : {"libsluice.so", "libcuda.so.1"})
    if (::access((folder / name).c_str(), R_OK) != 0)
      return findings.bad("libraries", kExitUsage,
                          (folder / name).string() + " is missing; install Sluice again");
  findings.good("libraries", folder.string());
}

void check_server(const Settings& settings, Findings& findings) {
  if (settings.server.empty())
    return findings.bad("server", kExitUsage,
                        "none named: --server, SLUICE_SERVER, or server in " +
                            client_config_path() + "; `sluice run --local` needs none");
  const auto target = target_of(settings);
  if (!target) return findings.bad("server", kExitUsage, target.error().message);
  const auto node = probe(*target);
  if (!node) return findings.bad("server", kExitServer, node.error().message);
  findings.good("server",
                settings.server + " (" + *node + ") lets tenant \"" + target->tenant + "\" in");
}

/// What would carry the calls, and why not something better.
void check_transport(const Settings& settings, Findings& findings) {
  const bool is_unix = settings.is_local || settings.server.starts_with("unix:");
  const std::string& wish = settings.transport;
  if (wish.empty() && is_unix)
    return findings.good("transport", "shm (the server is on this host)");
  if (!wish.empty() && wish != "ucx") return findings.good("transport", wish + " (as chosen)");
  const auto ucx = transport::ucx::describe_host();
  if (ucx)
    return findings.good("transport", wish.empty()
                                          ? "ucx if the server has RDMA, too, else tcp: " + *ucx
                                          : "ucx (as chosen): " + *ucx);
  if (wish.empty()) return findings.good("transport", "tcp; not ucx: " + ucx.error().message);
  findings.bad("transport", kExitUsage, "ucx: " + ucx.error().message);
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

}  // namespace

int doctor(Settings settings) {
  Findings findings;
  const auto completed = complete(settings);
  if (!completed) {
    findings.bad("configuration", kExitUsage, completed.error().message);
  } else {
    settings = *completed;
    findings.good("configuration", settings.config_file.empty()
                                       ? "no " + client_config_path() + " (none is needed)"
                                       : settings.config_file);
  }
  check_libraries(findings);
  if (settings.is_local || !settings.server.empty()) check_transport(settings, findings);
  if (!settings.is_local) check_server(settings, findings);
  if (!settings.command.empty()) check_program(settings.command[0], findings);
  return findings.code();
}

}  // namespace sluice::tool
