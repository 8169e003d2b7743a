// sluiced's configuration: a TOML file, every key of which is known and checked.
// docs/configuration.md describes it.
#pragma once

#include "common/result.h"
#include "scheduler/device/share.h"
#include "server/config/token.h"
#include "transport/tls/tls.h"
#include "transport/transport.h"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sluice::config {

inline constexpr std::uint32_t kSessionCountMax = 1'000'000;  ///< in max_sessions
/// In prestart_workers: each is a process that has loaded the driver.
inline constexpr std::uint32_t kPrestartCountMax = 256;

struct Tenant {
  std::string name;
  std::optional<TokenHash> token_hash;   ///< none: nobody is let in (revoked)
  std::uint64_t memory_limit_bytes = 0;  ///< on each device; 0 = the device's own size
  /// What contexts, driver and libraries take for themselves counts against the slice, too.
  bool charges_context = false;
  std::uint32_t max_sessions = 64;
  std::chrono::milliseconds idle_timeout{0};  ///< without a CUDA call; 0 = none
  std::chrono::milliseconds max_duration{0};  ///< of a session; 0 = none
  scheduler::Share share;                     ///< of each device's time
};

/// Where sluicectl finds the server.
struct Control {
  /// Path of the UNIX socket; empty: beside the first UNIX address of `listen`, with ".control"
  /// appended; "none": no control.
  std::string socket;
  std::string group;  ///< may use it too (mode 0660); empty: the server's user alone (0600)

  bool operator==(const Control&) const = default;
};

struct Metrics {
  std::string listen;  ///< HOST:PORT of the endpoint for Prometheus; empty: none

  bool operator==(const Metrics&) const = default;
};

struct Config {
  std::string driver;  ///< empty: the system's, else softgpu beside the executable
  std::vector<transport::Address> listen;
  std::string node;  ///< empty: the host's name
  std::string log_level = "info";
  std::string stats_file;  ///< one JSON line for every closed session; empty: none
  bool allow_plaintext_network = false;
  bool require_encryption = false;  ///< of everything but UNIX sockets
  transport::tls::ServerSettings tls;
  std::string compute_policy = "fair-share";
  /// A kernel that keeps others waiting for longer ends its session.
  std::chrono::milliseconds kernel_max{10'000};
  std::uint32_t max_sessions = 256;
  std::uint32_t prestart_workers = 1;
  /// For what sluicectl changes; empty: such changes end with the server.
  std::string state_dir;
  std::string io_uring = "auto";               ///< auto, on, off: how workers receive from sockets
  std::chrono::milliseconds grace{30'000};     ///< a silent client is kept for this long
  bool resume_on_reset = false;                ///< a reset cuts a connection, it does not end it
  std::chrono::milliseconds drain_timeout{0};  ///< at SIGTERM, for sessions to end by themselves
  std::chrono::milliseconds heartbeat{1'000};  ///< advice to clients
  std::chrono::milliseconds heartbeat_timeout{5'000};
  Control control;
  Metrics metrics;
  std::vector<Tenant> tenants;
};

/// Err(kInvalidArgument) names the file, the line, the key, and what would be accepted; load() also
/// fails as read_file() does.
Result<Config> load(const std::string& path);
Result<Config> parse(const std::string& text, const std::string& path);
/// The path of the control socket; empty if there is none.
std::string control_socket(const Config& config);
/// What load() cannot know: at least one listen address, plain TCP on loopback only unless allowed,
/// a certificate that can be used, a tenant unless sluicectl can add one, a folder for stats_file.
Status check(const Config& config);

}  // namespace sluice::config
