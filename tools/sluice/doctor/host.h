// What this host allows and has, as far as it matters to a client: limits, processors, memory
// pages, io_uring, RDMA devices.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sluice::tool {

class Findings;

struct Host {
  std::string kernel;  ///< release of the host kernel
  double load_average = 0;
  /// Nothing: unlimited.
  std::optional<std::uint64_t> locked_bytes_max, files_max, address_space_bytes_max, file_bytes_max;
  std::optional<std::uint64_t> shm_bytes, shm_free_bytes;  ///< /dev/shm; nothing: not there
  unsigned cpus_usable = 0, cpus_online = 0;
  std::optional<double> cpu_quota;  ///< of the control group, in processors; nothing: none
  std::uint64_t huge_page_bytes = 0, huge_pages = 0, huge_pages_free = 0;
  std::string transparent_huge_pages;  ///< "always", "madvise", "never"; empty: not built in
  std::string io_uring_problem;        ///< empty: it can be used
  std::string seccomp;                 ///< "none", "strict", "filter"
  std::vector<std::string> rdma_devices;
};

Host read_host();
nlohmann::json to_json(const Host& host);
/// `uses_rdma`: the session travels by RDMA, so what that needs counts.
void judge_host(const Host& host, bool uses_rdma, Findings& findings);

}  // namespace sluice::tool
