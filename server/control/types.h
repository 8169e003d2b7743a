// What the administrator's tools and the broker tell each other, as plain values: the control
// service turns them into Cap'n Proto and back, so that neither the broker nor sluicectl knows it.
#pragma once

#include "common/result.h"
#include "scheduler/device/tenant_state.h"
#include "server/config/overrides.h"
#include "server/memory_kind.h"
#include "server/store/usage.h"

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace sluice::server::store {
class UsageLog;
}

namespace sluice::server::control {

struct DeviceInfo {
  std::string name;
  std::uint64_t total_bytes = 0;
  std::uint64_t used_bytes = 0;      ///< by all tenants together, as the ledger has it
  std::uint64_t overhead_bytes = 0;  ///< of contexts, driver and libraries, beside that

  bool operator==(const DeviceInfo&) const = default;
};

struct ServerInfo {
  std::string version, node, driver;
  std::vector<std::string> addresses;
  std::string config_file, state_file;  ///< empty: none
  std::uint64_t uptime_ms = 0;
  std::uint32_t sessions = 0, max_sessions = 0;
  std::vector<DeviceInfo> devices;  ///< known once a worker has loaded the driver
  /// GPU time is divided and the ledger is right; else nothing new is let through.
  bool is_enforcing = true;

  bool operator==(const ServerInfo&) const = default;
};

struct SessionInfo {
  std::uint64_t id = 0;
  std::string tenant, host, program;
  std::int32_t client_pid = 0, worker_pid = 0;
  std::string state;  ///< starting, open, suspect, ending
  std::uint64_t age_ms = 0, idle_ms = 0;
  std::uint64_t calls = 0, waits = 0, bytes_in = 0, bytes_out = 0, gpu_us = 0;
  std::uint64_t memory_bytes = 0, memory_peak_bytes = 0;
  MemoryByKind memory_kinds{};

  bool operator==(const SessionInfo&) const = default;
};

struct TenantInfo {
  std::string name;
  std::string source;  ///< file, sluicectl, or both: where its settings come from
  bool has_token = false;
  std::uint64_t memory_limit_bytes = 0;  ///< 0 = the device's own size
  std::uint32_t max_sessions = 0;
  std::uint64_t idle_timeout_ms = 0, max_duration_ms = 0;  ///< 0 = none
  std::uint32_t sessions = 0;
  std::uint64_t used_bytes = 0;      ///< on all devices
  MemoryByKind memory_kinds{};       ///< on all devices, with what is not charged to the slice
  bool charges_context = false;      ///< its overhead is charged to the slice, too
  std::uint64_t memory_denials = 0;  ///< allocations that were refused since the server started
  scheduler::Share share;            ///< of each device's time
  /// Of all devices' time, since the server started: what was charged, and what it waited for with
  /// work to do, because of others' shares, its limit, and its own turn.
  std::uint64_t served_us = 0;
  std::array<std::uint64_t, scheduler::kReasonCount> held_us{};

  bool operator==(const TenantInfo&) const = default;
};

/// The outcome of a change, and what the administrator must know about it.
struct Changed {
  TenantInfo tenant;
  std::string token;    ///< of a new token only: shown once, kept nowhere
  std::string warning;  ///< e.g. that the change ends with the server

  bool operator==(const Changed&) const = default;
};

/// What a tenant had of a device since ever; `gpu` is its UUID.
struct MeteredUse {
  std::string tenant, gpu;
  store::Use use;
};

/// What an administrator can ask of a running server. Confined to the broker's thread.
class Administration {
 public:
  virtual ~Administration() = default;
  [[nodiscard]] virtual ServerInfo server() const = 0;
  [[nodiscard]] virtual std::vector<SessionInfo> sessions() const = 0;
  [[nodiscard]] virtual std::vector<TenantInfo> tenants() const = 0;
  /// Creates the tenant if there is none of that name. Err(kInvalidArgument): the name.
  virtual Result<Changed> set_tenant(const std::string& name,
                                     const config::TenantOverride& change) = 0;
  /// Err(kExhausted): it has sessions, and `is_forced` is false; else they are ended.
  virtual Result<Changed> remove_tenant(const std::string& name, bool is_forced) = 0;
  virtual Result<Changed> new_token(const std::string& tenant) = 0;
  /// Sessions that run go on; nobody new is let in.
  virtual Result<Changed> revoke_token(const std::string& tenant) = 0;
  /// How many sessions were ended. Err(kNotFound).
  virtual Result<std::uint32_t> kill_session(std::uint64_t id) = 0;
  virtual Result<std::uint32_t> kill_tenant(const std::string& tenant) = 0;
  /// Reads the configuration file again; what changed, in words. An error keeps the old one.
  virtual Result<std::string> reload() = 0;
  virtual std::vector<MeteredUse> metered() = 0;
  /// What was used by now is in it. It can be asked from any thread, also when the server is gone.
  virtual std::shared_ptr<store::UsageLog> usage_log() = 0;
};

/// Runs something in the broker's thread; callable from any thread. Dropped if the broker is gone.
using Post = std::function<void(std::function<void()>)>;

}  // namespace sluice::server::control
