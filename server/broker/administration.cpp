// What an administrator asks of the running server.
#include "common/format.h"
#include "common/log.h"
#include "common/release.h"
#include "server/broker/broker.h"
#include "server/broker/printable.h"
#include "server/broker/session.h"

#include <algorithm>

namespace sluice::server {
namespace {

std::uint64_t ms_since(std::chrono::steady_clock::time_point when) {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - when)
          .count());
}

/// The keys that count only when the server starts, and differ.
std::string waiting_for_restart(const config::Config& now, const config::Config& next) {
  const auto texts = [](const config::Config& c) {
    std::vector<std::string> out;
    for (const auto& address : c.listen) out.push_back(address.text());
    return out;
  };
  std::string out;
  const auto note = [&](bool differs, const char* key) {
    if (differs) out += (out.empty() ? "" : ", ") + std::string(key);
  };
  note(texts(now) != texts(next), "listen");
  note(now.driver != next.driver, "driver");
  note(now.compute_policy != next.compute_policy, "compute_policy");
  note(now.kernel_max != next.kernel_max, "kernel_max");
  note(now.state_dir != next.state_dir, "state_dir");
  note(now.control != next.control, "[control]");
  note(now.metrics != next.metrics, "[metrics]");
  return out;
}

}  // namespace

control::ServerInfo Broker::server() const {
  control::ServerInfo out;
  out.version = kRelease;
  out.node = welcome_of({}).node;
  out.driver = options_.config.driver;
  out.addresses = addresses();
  out.config_file = options_.config_file;
  out.state_file = state_->path();
  out.uptime_ms = ms_since(started_);
  out.sessions = static_cast<std::uint32_t>(sessions_.size());
  out.max_sessions = options_.config.max_sessions;
  out.is_enforcing = turns_->is_alive() && !ledger_.is_broken();
  for (const wire::DeviceRecord& device : inventory_.devices) {
    const Ledger::Sums sums = ledger_.sums_of(static_cast<std::uint32_t>(out.devices.size()));
    out.devices.push_back({device.name, device.total_bytes, sums.slice_bytes, sums.overhead_bytes});
  }
  return out;
}

control::SessionInfo Broker::info_of(const Session& session) const {
  control::SessionInfo out;
  out.id = session.id;
  out.tenant = session.tenant.name;
  out.host = session.hello.host;
  out.program = session.hello.program;
  out.client_pid = session.hello.pid;
  out.worker_pid = session.worker.pid;
  out.state = session.is_ending      ? "ending"
              : !session.is_attached ? "starting"
              : session.is_suspect   ? "suspect"
                                     : "open";
  out.age_ms = ms_since(session.started);
  out.idle_ms = ms_since(session.last_call);
  out.calls = session.stats.calls;
  out.waits = session.stats.waits;
  out.bytes_in = session.stats.bytes_in;
  out.bytes_out = session.stats.bytes_out;
  out.gpu_us = session.stats.gpu_us;
  out.memory_bytes = ledger_.held_bytes(session.id);
  out.memory_kinds = ledger_.kinds_of(session.id);
  out.memory_peak_bytes = std::max(session.stats.memory_peak_bytes, out.memory_bytes);
  return out;
}

std::vector<control::SessionInfo> Broker::sessions() const {
  std::vector<control::SessionInfo> out;
  for (const auto& [id, session] : sessions_) out.push_back(info_of(*session));
  return out;
}

control::TenantInfo Broker::info_of(const config::Tenant& tenant) const {
  control::TenantInfo out;
  out.name = printable(tenant.name);
  out.source = tenants_.source_of(tenant.name);
  out.has_token = tenant.token_hash.has_value();
  out.memory_limit_bytes = tenant.memory_limit_bytes;
  out.max_sessions = tenant.max_sessions;
  out.idle_timeout_ms = static_cast<std::uint64_t>(tenant.idle_timeout.count());
  out.max_duration_ms = static_cast<std::uint64_t>(tenant.max_duration.count());
  for (const auto& [id, session] : sessions_)
    if (session->tenant.name == tenant.name && !session->is_ending) ++out.sessions;
  for (std::uint32_t i = 0; i < inventory_.devices.size(); ++i)
    out.used_bytes += ledger_.used_bytes(tenant.name, i);
  out.memory_kinds = ledger_.kinds_of(tenant.name);
  out.charges_context = tenant.charges_context;
  if (const auto denied = denials_.find(tenant.name); denied != denials_.end())
    out.memory_denials = denied->second.count;
  out.share = tenant.share;
  const turns::TenantTime time = turns_->time_of(tenant.name);
  const auto us = [](turns::Duration t) { return static_cast<std::uint64_t>(t.count() / 1000); };
  out.served_us = us(time.total_served());
  std::transform(time.held.begin(), time.held.end(), out.held_us.begin(), us);
  return out;
}

std::vector<control::TenantInfo> Broker::tenants() const {
  std::vector<control::TenantInfo> out;
  for (const config::Tenant& tenant : tenants_.all()) out.push_back(info_of(tenant));
  return out;
}

control::Changed Broker::changed(const std::string& tenant) const {
  control::Changed out;
  if (const config::Tenant* found = tenants_.find(tenant)) out.tenant = info_of(*found);
  if (state_->path().empty())
    out.warning = "this lasts until the server stops: it has no state_dir in [server]";
  return out;
}

Result<control::Changed> Broker::set_tenant(const std::string& name,
                                            const config::TenantOverride& change) {
  SLUICE_CHECK(tenants_.change(name, change));
  update_shares();
  SLUICE_LOG_INFO("session", "tenant={} is changed by sluicectl", name);
  return changed(name);
}

Result<control::Changed> Broker::remove_tenant(const std::string& name, bool is_forced) {
  const config::Tenant* tenant = tenants_.find(name);
  if (tenant == nullptr)
    return fail(ErrorCode::kNotFound, format("there is no tenant \"{}\"", name));
  control::Changed out;
  out.tenant = info_of(*tenant);
  if (out.tenant.sessions > 0 && !is_forced)
    return fail(ErrorCode::kExhausted, format("tenant \"{}\" has {} sessions; --force ends them",
                                              name, out.tenant.sessions));
  SLUICE_CHECK(tenants_.remove(name));
  SLUICE_LOG_INFO("session", "tenant={} is removed by sluicectl", name);
  kill_all_of(name, "its tenant was removed by the administrator");
  out.warning = changed(name).warning;
  return out;
}

Result<control::Changed> Broker::new_token(const std::string& tenant) {
  if (tenants_.find(tenant) == nullptr)
    return fail(ErrorCode::kNotFound,
                format("there is no tenant \"{}\"; sluicectl tenant set makes it", tenant));
  SLUICE_TRY(std::string token, config::new_token());
  config::TenantOverride change;
  change.token_hash.emplace(config::hash_token(token));
  SLUICE_CHECK(tenants_.change(tenant, change));
  SLUICE_LOG_INFO("session", "tenant={} has a new token", tenant);
  control::Changed out = changed(tenant);
  out.token = std::move(token);
  return out;
}

Result<control::Changed> Broker::revoke_token(const std::string& tenant) {
  if (tenants_.find(tenant) == nullptr)
    return fail(ErrorCode::kNotFound, format("there is no tenant \"{}\"", tenant));
  config::TenantOverride change;
  change.token_hash.emplace();
  SLUICE_CHECK(tenants_.change(tenant, change));
  SLUICE_LOG_INFO("session", "the token of tenant={} is revoked", tenant);
  return changed(tenant);
}

std::uint32_t Broker::kill_all_of(const std::string& tenant, const std::string& why) {
  std::uint32_t count = 0;
  const auto sessions = sessions_;  // a copy: ending one may remove it
  for (const auto& [id, session] : sessions) {
    if (session->tenant.name != tenant || session->is_ending) continue;
    end_session(session, wire::EndingCode::kKilled, why);
    ++count;
  }
  return count;
}

Result<std::uint32_t> Broker::kill_session(std::uint64_t id) {
  const auto found = sessions_.find(id);
  if (found == sessions_.end() || found->second->is_ending)
    return fail(ErrorCode::kNotFound, format("there is no session {}", id));
  end_session(std::shared_ptr<Session>(found->second), wire::EndingCode::kKilled,
              "the administrator ended it");
  return 1;
}

Result<std::uint32_t> Broker::kill_tenant(const std::string& tenant) {
  const std::uint32_t count = kill_all_of(tenant, "the administrator ended it");
  if (count == 0 && tenants_.find(tenant) == nullptr)
    return fail(ErrorCode::kNotFound, format("there is no tenant \"{}\"", tenant));
  return count;
}

void Broker::apply_log_level() const {
  log_set_level(options_.config.log_level);
}

Result<std::string> Broker::reload() {
  if (!options_.reload)
    return fail(ErrorCode::kUnsupported, "the server was started without a configuration file");
  auto next = options_.reload();
  if (!next) {
    SLUICE_LOG_ERROR("session", "the configuration stays as it is: {}", next.error().message);
    return fail(next.error());
  }
  // Also if its name has not changed: the files may be new.
  auto tls = tls_context_of(*next);
  if (!tls) {
    SLUICE_LOG_ERROR("session", "the configuration stays as it is: {}", tls.error().message);
    return fail(tls.error());
  }
  tls_ = std::move(*tls);
  const std::string waiting = waiting_for_restart(options_.config, *next);
  next->listen = options_.config.listen;
  next->driver = options_.config.driver;
  next->compute_policy = options_.config.compute_policy;
  next->kernel_max = options_.config.kernel_max;
  next->state_dir = options_.config.state_dir;
  next->control = options_.config.control;
  options_.config = std::move(*next);
  tenants_.replace_file(options_.config.tenants);
  update_shares();
  apply_log_level();
  std::string summary =
      format("the configuration was read again: {} tenants", tenants_.all().size());
  if (!waiting.empty()) summary += "; these wait for a restart: " + waiting;
  SLUICE_LOG_INFO("session", "{}", summary);
  return summary;
}

}  // namespace sluice::server
