#include "tools/sluice/local_server.h"

#include "common/fd.h"
#include "server/config/token.h"
#include "tools/sluicectl/cert/authority.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace sluice::tool {
namespace {

constexpr int kReadyTimeMs = 20'000;

Status write_private(const std::string& path, const std::string& text) {
  const Fd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd.valid() ||
      ::write(fd.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    return fail(system_error("writing " + path, errno));
  return {};
}

/// The lines of [tls]; empty without encryption.
Result<std::string> make_certificates(const std::string& folder, bool is_wanted) {
  if (!is_wanted) return std::string();
  const cert::Validity validity{.until = cert::Days(30)};
  SLUICE_TRY(const cert::Pair authority, cert::make_authority("sluice run --local", validity));
  SLUICE_TRY(const cert::Pair server, cert::issue_server(authority, {"127.0.0.1"}, validity));
  const std::string certificate = folder + "/server.crt", key = folder + "/server.key";
  SLUICE_CHECK(cert::save(authority, folder + "/ca.crt", folder + "/ca.key", false));
  SLUICE_CHECK(cert::save(server, certificate, key, false));
  return "[tls]\ncertificate = \"" + certificate + "\"\nkey = \"" + key + "\"\n";
}

/// "ready ADDRESS" from sluiced, or what it said on its way down.
Result<std::string> await_ready(int fd, const std::string& log) {
  std::string line;
  for (;;) {
    pollfd p{fd, POLLIN, 0};
    if (::poll(&p, 1, kReadyTimeMs) <= 0)
      return fail(ErrorCode::kTimeout, "the local server did not become ready");
    char c = 0;
    if (::read(fd, &c, 1) <= 0) {
      std::ifstream file(log);
      std::stringstream text;
      text << file.rdbuf();
      return fail(ErrorCode::kSystem, "the local server did not start: " + text.str());
    }
    if (c == '\n') break;
    line += c;
  }
  std::istringstream words(line);
  std::string ready, address;
  words >> ready >> address;
  return address;
}

}  // namespace

Result<LocalServer> LocalServer::start(const LocalOptions& options) {
  LocalServer server;
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  std::string name =
      std::string(runtime != nullptr && ::access(runtime, W_OK) == 0 ? runtime : "/tmp") +
      "/sluice-run.XXXXXX";
  if (::mkdtemp(name.data()) == nullptr) return fail(system_error("creating " + name, errno));
  server.folder_ = name;
  SLUICE_TRY(const std::string token, config::new_token());
  SLUICE_CHECK(write_private(server.token_file(), token + "\n"));
  const std::string driver =
      !options.driver.empty()
          ? options.driver
          : (std::filesystem::path(options.bin_folder) / "../lib/softgpu/libcuda.so.1").string();
  const std::string listen = options.use_tcp ? "127.0.0.1:0" : "unix:" + name + "/sluiced.sock";
  const std::string uring =
      options.io_uring.empty() ? "" : "io_uring = \"" + options.io_uring + "\"\n";
  const std::string limit =
      options.memory_limit.empty() ? "" : "memory_limit = \"" + options.memory_limit + "\"\n";
  SLUICE_TRY(const std::string tls, make_certificates(name, options.use_tls));
  SLUICE_CHECK(write_private(name + "/sluiced.toml",
                             "[server]\ndriver = \"" + driver + "\"\nlisten = [\"" + listen +
                                 "\"]\nstats_file = \"" + server.stats_file() + "\"\n" + uring +
                                 tls + "[[tenant]]\nname = \"" + kTenant + "\"\ntoken_file = \"" +
                                 server.token_file() + "\"\n" + limit));
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return fail(system_error("creating a pipe", errno));
  const Fd ready(ends[0]);
  Fd write_end(ends[1]);
  const std::string log = name + "/log";
  server.pid_ = ::fork();
  if (server.pid_ < 0) return fail(system_error("starting sluiced", errno));
  if (server.pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    ::setpgid(0, 0);  // Ctrl-C is for the program; the server ends behind it
    const int out = ::open(log.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    ::dup2(out, 2);
    ::dup2(write_end.get(), 8);
    ::unsetenv("LD_PRELOAD");
    ::unsetenv("CUDA_VISIBLE_DEVICES");
    const std::string executable = options.bin_folder + "/sluiced";
    const std::string configuration = name + "/sluiced.toml";
    ::execl(executable.c_str(), "sluiced", "--config", configuration.c_str(), "--print-ready-fd",
            "8", static_cast<char*>(nullptr));
    ::_exit(127);
  }
  write_end.reset();
  SLUICE_TRY(server.address_, await_ready(ready.get(), log));
  return server;
}

LocalServer::LocalServer(LocalServer&& other) noexcept
    : folder_(std::move(other.folder_)), address_(std::move(other.address_)), pid_(other.pid_) {
  other.folder_.clear();
  other.pid_ = -1;
}

void LocalServer::stop() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGTERM);
  ::waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

LocalServer::~LocalServer() {
  stop();
  std::error_code ignored;
  if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
}

}  // namespace sluice::tool
