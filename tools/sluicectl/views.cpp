#include "tools/sluicectl/views.h"

#include "common/duration.h"
#include "common/format.h"
#include "common/percent.h"
#include "common/size.h"
#include "server/config/kinds_text.h"

#include <cstdio>

namespace sluice::tool {

using server::MemoryByKind;
using server::MemoryClass;
using server::control::ServerInfo;
using server::control::SessionInfo;
using server::control::TenantInfo;

namespace {

/// Whole seconds above one: nobody reads milliseconds of hours.
std::string time_text(std::uint64_t ms) {
  const std::uint64_t shown = ms >= 1000 ? ms / 1000 * 1000 : ms;
  return shown == 0 ? "0s" : duration_text(std::chrono::milliseconds(shown));
}

std::string limit_text(const TenantInfo& tenant) {
  return tenant.memory_limit_bytes == 0 ? "device" : size_text(tenant.memory_limit_bytes);
}

/// "30% to 80%", "up to 80%", "from 30%", "any"
std::string compute_text(const TenantInfo& t) {
  const bool has_limit = t.share.limit < 1;
  if (t.share.guarantee > 0)
    return has_limit ? percent_text(t.share.guarantee) + " to " + percent_text(t.share.limit)
                     : "from " + percent_text(t.share.guarantee);
  return has_limit ? "up to " + percent_text(t.share.limit) : "any";
}

/// All kinds, so that whoever reads it finds each.
nlohmann::json json_of(const MemoryByKind& kinds) {
  nlohmann::json out = nlohmann::json::object();
  for (std::size_t i = 0; i < server::kMemoryKindCount; ++i)
    out[std::string(server::kMemoryKindNames[i])] = kinds[i];
  return out;
}

std::string time_limit(std::uint64_t ms) {
  return duration_text(std::chrono::milliseconds(ms));
}

}  // namespace

nlohmann::json json_of(const ServerInfo& server) {
  nlohmann::json devices = nlohmann::json::array();
  for (const auto& device : server.devices)
    devices.push_back({{"name", device.name},
                       {"total_bytes", device.total_bytes},
                       {"used_bytes", device.used_bytes},
                       {"overhead_bytes", device.overhead_bytes}});
  return {{"version", server.version},
          {"node", server.node},
          {"driver", server.driver},
          {"addresses", server.addresses},
          {"config_file", server.config_file},
          {"state_file", server.state_file},
          {"uptime_ms", server.uptime_ms},
          {"sessions", server.sessions},
          {"max_sessions", server.max_sessions},
          {"devices", devices}};
}

nlohmann::json json_of(const SessionInfo& s) {
  return {{"id", s.id},
          {"tenant", s.tenant},
          {"host", s.host},
          {"program", s.program},
          {"client_pid", s.client_pid},
          {"worker_pid", s.worker_pid},
          {"state", s.state},
          {"age_ms", s.age_ms},
          {"idle_ms", s.idle_ms},
          {"calls", s.calls},
          {"waits", s.waits},
          {"bytes_in", s.bytes_in},
          {"bytes_out", s.bytes_out},
          {"gpu_us", s.gpu_us},
          {"memory_bytes", s.memory_bytes},
          {"memory_peak_bytes", s.memory_peak_bytes},
          {"memory_by_kind", json_of(s.memory_kinds)},
          {"overhead_bytes", sum_of(s.memory_kinds, MemoryClass::kOverhead)}};
}

nlohmann::json json_of(const TenantInfo& t) {
  return {{"name", t.name},
          {"source", t.source},
          {"has_token", t.has_token},
          {"memory_limit_bytes", t.memory_limit_bytes},
          {"max_sessions", t.max_sessions},
          {"idle_timeout_ms", t.idle_timeout_ms},
          {"max_duration_ms", t.max_duration_ms},
          {"sessions", t.sessions},
          {"used_bytes", t.used_bytes},
          {"memory_by_kind", json_of(t.memory_kinds)},
          {"overhead_bytes", sum_of(t.memory_kinds, MemoryClass::kOverhead)},
          {"context", t.charges_context ? "charge" : "free"},
          {"compute", t.share.guarantee},
          {"compute_limit", t.share.limit},
          {"weight", t.share.weight},
          {"class", scheduler::class_name(t.share.cls)},
          {"gpu_us", t.served_us},
          {"held_by_share_us", t.held_us[0]},
          {"held_by_limit_us", t.held_us[1]},
          {"held_by_turn_us", t.held_us[2]},
          {"memory_denials", t.memory_denials}};
}

std::string table_of(const std::vector<SessionInfo>& sessions) {
  Table table({"SESSION", "TENANT", "STATE", "AGE", "IDLE", "MEMORY", "PEAK", "CALLS", "WAITS",
               "GPU ms", "CLIENT", "PROGRAM"});
  for (const SessionInfo& s : sessions)
    table.add({std::to_string(s.id), s.tenant, s.state, time_text(s.age_ms), time_text(s.idle_ms),
               size_text(s.memory_bytes), size_text(s.memory_peak_bytes), std::to_string(s.calls),
               std::to_string(s.waits), std::to_string(s.gpu_us / 1000),
               format("{}:{}", s.host, s.client_pid), s.program});
  return table.text();
}

std::string table_of(const std::vector<TenantInfo>& tenants) {
  Table table({"TENANT", "MEMORY", "USED", "COMPUTE", "WEIGHT", "CLASS", "GPU ms", "SESSIONS",
               "IDLE TIMEOUT", "MAX DURATION", "TOKEN", "SOURCE"});
  for (const TenantInfo& t : tenants)
    table.add({t.name, limit_text(t), size_text(t.used_bytes), compute_text(t),
               format("{:g}", t.share.weight), std::string(scheduler::class_name(t.share.cls)),
               std::to_string(t.served_us / 1000), format("{}/{}", t.sessions, t.max_sessions),
               time_limit(t.idle_timeout_ms), time_limit(t.max_duration_ms),
               t.has_token ? "yes" : "no", t.source});
  return table.text();
}

std::string text_of(const TenantInfo& t) {
  return format(
      "tenant        {}\nmemory        {} of {} used\n"
      "by kind       {}\noverhead      {}, {}\n"
      "compute       {}, weight {:g}, class {}\n"
      "GPU time      {} ms; had work and waited: {} ms for others, {} ms for its limit\n"
      "sessions      {} of {}\n"
      "idle timeout  {}\nmax duration  {}\ntoken         {}\nsource        {}\n",
      t.name, size_text(t.used_bytes), limit_text(t), config::kinds_text(t.memory_kinds),
      size_text(sum_of(t.memory_kinds, MemoryClass::kOverhead)),
      t.charges_context ? "charged to the slice" : "not charged to the slice", compute_text(t),
      t.share.weight, scheduler::class_name(t.share.cls), t.served_us / 1000, t.held_us[0] / 1000,
      t.held_us[1] / 1000, t.sessions, t.max_sessions, time_limit(t.idle_timeout_ms),
      time_limit(t.max_duration_ms),
      t.has_token ? "set" : "none: nobody is let in (sluicectl token new)",
      t.source == "both"   ? "sluiced.toml, changed with sluicectl"
      : t.source == "file" ? "sluiced.toml"
                           : "sluicectl");
}

void print_json(const nlohmann::json& value) {
  std::printf("%s\n", value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
  std::fflush(stdout);
}

}  // namespace sluice::tool
