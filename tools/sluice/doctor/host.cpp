#include "tools/sluice/doctor/host.h"

#include "transport/ucx/devices.h"

#include <linux/io_uring.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace sluice::tool {
namespace {

namespace fs = std::filesystem;

template <class Resource>
std::optional<std::uint64_t> limit(Resource which) {
  rlimit found{};
  if (::getrlimit(which, &found) != 0 || found.rlim_cur == RLIM_INFINITY) return std::nullopt;
  return found.rlim_cur;
}

std::string first_line(const fs::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

/// The number behind "Key:" in a file like /proc/meminfo.
std::uint64_t keyed_number(const char* file, const std::string& key) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);)
    if (line.starts_with(key)) return std::strtoull(line.c_str() + key.size(), nullptr, 10);
  return 0;
}

/// "100000 50000" or "max 100000".
std::optional<double> quota_of(const std::string& quota_and_period) {
  std::istringstream words(quota_and_period);
  double quota = 0, period = 0;
  if (!(words >> quota >> period) || quota <= 0 || period <= 0) return std::nullopt;
  return quota / period;
}

/// The tightest of the group and those around it.
std::optional<double> cpu_quota() {
  std::optional<double> tightest;
  const auto take = [&](const std::optional<double>& quota) {
    if (quota && (!tightest || *quota < *tightest)) tightest = quota;
  };
  std::string group = "/";
  std::ifstream in("/proc/self/cgroup");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("0::")) group = line.substr(3);
  const fs::path root = "/sys/fs/cgroup";
  for (fs::path at = root / fs::path(group).relative_path();
       at.string().size() >= root.string().size(); at = at.parent_path()) {
    take(quota_of(first_line(at / "cpu.max")));
    if (at == root) break;
  }
  const fs::path old = root / "cpu";  // version 1, as a container sees its own
  take(
      quota_of(first_line(old / "cpu.cfs_quota_us") + " " + first_line(old / "cpu.cfs_period_us")));
  return tightest;
}

std::string chosen_in(const std::string& choices) {
  const std::size_t from = choices.find('['), to = choices.find(']');
  return from == std::string::npos || to == std::string::npos
             ? ""
             : choices.substr(from + 1, to - from - 1);
}

std::string why_no_ring(int error) {
  if (error == ENOSYS) return "the host kernel has none (5.1 or later is needed)";
  if (error == EPERM || error == EACCES)
    return first_line("/proc/sys/kernel/io_uring_disabled") > "0"
               ? "it is switched off (sysctl kernel.io_uring_disabled)"
               : "it is forbidden, by a seccomp profile (containers) or a security module";
  return std::strerror(error);
}

/// In a process of its own: a seccomp profile may kill who asks.
std::string io_uring_problem() {
  const pid_t pid = ::fork();
  if (pid < 0) return "not tried: no process could be started";
  if (pid == 0) {
    io_uring_params params{};
    const long fd = ::syscall(SYS_io_uring_setup, 1, &params);
    ::_exit(fd >= 0 ? 0 : errno);
  }
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (!WIFEXITED(status)) return "whoever asks for it is killed (seccomp)";
  return WEXITSTATUS(status) == 0 ? "" : why_no_ring(WEXITSTATUS(status));
}

std::string seccomp() {
  switch (keyed_number("/proc/self/status", "Seccomp:")) {
    case 1:
      return "strict";
    case 2:
      return "filter";
    default:
      return "none";
  }
}

nlohmann::json or_null(const auto& value) {
  return value ? nlohmann::json(*value) : nlohmann::json();
}

}  // namespace

Host read_host() {
  Host out;
  utsname name{};
  if (::uname(&name) == 0) out.kernel = name.release;
  std::ifstream("/proc/loadavg") >> out.load_average;
  out.locked_bytes_max = limit(RLIMIT_MEMLOCK);
  out.files_max = limit(RLIMIT_NOFILE);
  out.address_space_bytes_max = limit(RLIMIT_AS);
  out.file_bytes_max = limit(RLIMIT_FSIZE);
  struct statvfs shm {};
  if (::statvfs("/dev/shm", &shm) == 0) {
    out.shm_bytes = shm.f_blocks * shm.f_frsize;
    out.shm_free_bytes = shm.f_bavail * shm.f_frsize;
  }
  cpu_set_t usable;
  if (::sched_getaffinity(0, sizeof usable, &usable) == 0)
    out.cpus_usable = static_cast<unsigned>(CPU_COUNT(&usable));
  out.cpus_online = static_cast<unsigned>(::sysconf(_SC_NPROCESSORS_ONLN));
  out.cpu_quota = cpu_quota();
  out.huge_page_bytes = keyed_number("/proc/meminfo", "Hugepagesize:") * 1024;
  out.huge_pages = keyed_number("/proc/meminfo", "HugePages_Total:");
  out.huge_pages_free = keyed_number("/proc/meminfo", "HugePages_Free:");
  out.transparent_huge_pages = chosen_in(first_line("/sys/kernel/mm/transparent_hugepage/enabled"));
  out.io_uring_problem = io_uring_problem();
  out.seccomp = seccomp();
  for (const auto& device : transport::ucx::devices())
    out.rdma_devices.push_back(transport::ucx::describe(device));
  return out;
}

nlohmann::json to_json(const Host& host) {
  return {{"kernel", host.kernel},
          {"load_average", host.load_average},
          {"locked_bytes_max", or_null(host.locked_bytes_max)},
          {"files_max", or_null(host.files_max)},
          {"address_space_bytes_max", or_null(host.address_space_bytes_max)},
          {"file_bytes_max", or_null(host.file_bytes_max)},
          {"shm_bytes", or_null(host.shm_bytes)},
          {"shm_free_bytes", or_null(host.shm_free_bytes)},
          {"cpus_usable", host.cpus_usable},
          {"cpus_online", host.cpus_online},
          {"cpu_quota", or_null(host.cpu_quota)},
          {"huge_page_bytes", host.huge_page_bytes},
          {"huge_pages", host.huge_pages},
          {"huge_pages_free", host.huge_pages_free},
          {"transparent_huge_pages", host.transparent_huge_pages},
          {"io_uring", host.io_uring_problem.empty()},
          {"io_uring_problem", host.io_uring_problem},
          {"seccomp", host.seccomp},
          {"rdma_devices", host.rdma_devices}};
}

}  // namespace sluice::tool
