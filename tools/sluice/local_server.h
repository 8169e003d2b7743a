// `sluice run --local`: a server of one's own for the time of one program, on the software GPU.
#pragma once

#include "common/result.h"

#include <sys/types.h>

#include <string>

namespace sluice::tool {

struct LocalOptions {
  std::string bin_folder;    ///< where sluiced is
  std::string memory_limit;  ///< empty: the whole device
  bool use_tcp = false;
  bool use_tls = false;  ///< with use_tcp; it makes its certificates itself
  std::string io_uring;  ///< as in [server]; empty: the default
  std::string driver;    ///< the libcuda.so.1 it serves; empty: the software GPU
};

/// Runs from construction to destruction; its folder (socket, token, log, statistics) is private
/// and removed.
class LocalServer {
 public:
  static Result<LocalServer> start(const LocalOptions& options);
  LocalServer(LocalServer&& other) noexcept;
  LocalServer& operator=(LocalServer&&) = delete;
  LocalServer(const LocalServer&) = delete;
  LocalServer& operator=(const LocalServer&) = delete;
  ~LocalServer();

  [[nodiscard]] const std::string& address() const { return address_; }
  [[nodiscard]] std::string token_file() const { return folder_ + "/token"; }
  [[nodiscard]] std::string stats_file() const { return folder_ + "/sessions.jsonl"; }
  /// What clients of an encrypted one trust.
  [[nodiscard]] std::string ca_file() const { return folder_ + "/ca.crt"; }
  static constexpr const char* kTenant = "local";
  /// Waits for the server's end, so that its last statistics are written.
  void stop();

 private:
  LocalServer() = default;
  std::string folder_, address_;
  pid_t pid_ = -1;
};

}  // namespace sluice::tool
