// What of a host's facts is worth a warning, and what to do about it.
#include "common/format.h"
#include "common/size.h"
#include "tools/sluice/doctor/findings.h"
#include "tools/sluice/doctor/host.h"
#include "transport/shm/layout.h"

#include <algorithm>

namespace sluice::tool {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20, kGiB = std::uint64_t{1} << 30;
constexpr std::uint64_t kFilesEnough = 1024;
constexpr std::uint64_t kShmEnough = 64 * kMiB;
constexpr std::uint64_t kAddressSpaceEnough = 64 * kGiB;
constexpr std::uint64_t kLockedEnoughForRdma = 64 * kMiB;

std::string size_or(const std::optional<std::uint64_t>& bytes, const char* without) {
  return bytes ? size_text(*bytes) : without;
}

void judge_limits(const Host& host, bool uses_rdma, Findings& findings) {
  const std::string text =
      format("locked memory {}, open files {}, address space {}, file size {}, /dev/shm {}",
             size_or(host.locked_bytes_max, "unlimited"),
             host.files_max ? std::to_string(*host.files_max) : "unlimited",
             size_or(host.address_space_bytes_max, "unlimited"),
             size_or(host.file_bytes_max, "unlimited"), size_or(host.shm_bytes, "not there"));
  findings.good("limits", text);
  if (uses_rdma && host.locked_bytes_max && *host.locked_bytes_max < kLockedEnoughForRdma)
    findings.warn("memlock", "locked memory is limited to " + size_text(*host.locked_bytes_max),
                  "RDMA needs memory that stays where it is: ulimit -l unlimited, or memlock in "
                  "/etc/security/limits.conf");
  if (host.files_max && *host.files_max < kFilesEnough)
    findings.warn("nofile", format("only {} files may be open", *host.files_max),
                  "ulimit -n 4096, or nofile in /etc/security/limits.conf");
  if (host.address_space_bytes_max && *host.address_space_bytes_max < kAddressSpaceEnough)
    findings.warn("address space", "limited to " + size_text(*host.address_space_bytes_max),
                  "device memory takes addresses in the program, too: ulimit -v unlimited");
  if (host.file_bytes_max && *host.file_bytes_max < transport::shm::kMemoryBytes)
    findings.warn("file size", "limited to " + size_text(*host.file_bytes_max),
                  format("shared memory with a server on this host needs {}: ulimit -f unlimited",
                         size_text(transport::shm::kMemoryBytes)));
  if (host.shm_bytes && *host.shm_bytes < kShmEnough)
    findings.warn("/dev/shm", "has only " + size_text(*host.shm_bytes),
                  "Sluice does not use it, but data loaders and NCCL do: docker run --shm-size, or "
                  "mount -o remount,size=… /dev/shm");
}

void judge_processors(const Host& host, Findings& findings) {
  const std::string text = format(
      "{} of {} processors usable{}, load average {:.1f}", host.cpus_usable, host.cpus_online,
      host.cpu_quota ? format(", control group allows {:.2f}", *host.cpu_quota) : "",
      host.load_average);
  const double usable =
      std::min(host.cpu_quota.value_or(host.cpus_usable), static_cast<double>(host.cpus_usable));
  if (usable < 2)
    findings.warn("cpu", text,
                  "the client cannot wait for the server without giving up the processor, and a "
                  "quota stops it for up to 100 ms: give the program at least 2 processors");
  else if (host.load_average > host.cpus_online)
    findings.warn("cpu", text,
                  "the processors have more to do than they can: what was measured above is worse "
                  "than on a quiet host; run sluice doctor again when it is");
  else
    findings.good("cpu", text);
}

}  // namespace

void judge_host(const Host& host, bool uses_rdma, Findings& findings) {
  const std::string ring = host.io_uring_problem.empty() ? "can be used" : host.io_uring_problem;
  findings.good("io_uring", ring + " (only a server uses it; there, too, epoll stands in for it)");
  std::string devices;
  for (const std::string& device : host.rdma_devices)
    devices += (devices.empty() ? "" : "\n") + device;
  findings.good("rdma", devices.empty() ? "no device" : devices);
  const std::string thp = host.transparent_huge_pages;
  findings.good("hugepages", format("transparent: {}; reserved: {} of {}, {} free",
                                    thp.empty() ? "not in this host kernel" : thp, host.huge_pages,
                                    size_text(host.huge_page_bytes), host.huge_pages_free));
  judge_limits(host, uses_rdma, findings);
  judge_processors(host, findings);
}

}  // namespace sluice::tool
