#include "server/broker/worker_process.h"

#include "server/link.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace sluice::server {
namespace {

/// What a worker inherits: how to find libraries and how softgpu, UCX and the log are set; nothing
/// that a client could have meant.
std::vector<std::string> worker_environment() {
  std::vector<std::string> out;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    for (const std::string_view prefix :
         {"PATH=", "HOME=", "LD_LIBRARY_PATH=", "SOFTGPU_", "SLUICE_LOG", "CUDA_MPS_", "NVIDIA_",
          "UCX_", "ASAN_OPTIONS=", "TSAN_OPTIONS="})
      if (text.starts_with(prefix)) out.emplace_back(text);
  }
  return out;
}

/// In the child, between fork and exec: only async-signal-safe calls.
[[noreturn]] void become_worker(const char* executable, int link_fd, char* const* environment) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::setpgid(0, 0);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  if (link_fd == link::kWorkerLinkFd)
    ::fcntl(link_fd, F_SETFD, 0);
  else if (::dup2(link_fd, link::kWorkerLinkFd) < 0)
    ::_exit(127);
  ::syscall(SYS_close_range, link::kWorkerLinkFd + 1, ~0u, 0);
  const int null = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (null >= 0) ::dup2(null, 0);
  char* const arguments[] = {const_cast<char*>("sluice-worker"), nullptr};
  ::execve(executable, arguments, environment);
  ::_exit(127);
}

}  // namespace

Result<WorkerProcess> start_worker(const std::string& executable) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    return fail(system_error("creating the link to a worker", errno));
  WorkerProcess worker;
  worker.link.reset(ends[0]);
  ::fcntl(ends[0], F_SETFL, O_NONBLOCK);  // our end only: the broker never waits for a worker
  const Fd theirs(ends[1]);
  const std::vector<std::string> environment = worker_environment();
  std::vector<char*> pointers;
  for (const std::string& entry : environment) pointers.push_back(const_cast<char*>(entry.c_str()));
  pointers.push_back(nullptr);
  worker.pid = ::fork();
  if (worker.pid < 0) return fail(system_error("starting a worker", errno));
  if (worker.pid == 0) become_worker(executable.c_str(), theirs.get(), pointers.data());
  worker.pidfd.reset(static_cast<int>(::syscall(SYS_pidfd_open, worker.pid, 0)));
  if (!worker.pidfd.valid()) return fail(system_error("watching a worker", errno));
  return worker;
}

}  // namespace sluice::server
