#include "server/metrics/families.h"

#include <iterator>

namespace sluice::server::metrics {
namespace {

constexpr double kUsPerSecond = 1e6;
/// By scheduler::Reason.
constexpr const char* kReasons[] = {"share", "limit", "turn"};
static_assert(std::size(kReasons) == scheduler::kReasonCount);

using Tenants = std::vector<control::TenantInfo>;

Family gauge(const char* name, const char* help) {
  return {name, help, false, {}};
}
Family counter(const char* name, const char* help) {
  return {name, help, true, {}};
}

template <class Value>
Family per_tenant(Family family, const Tenants& tenants, Value value) {
  for (const control::TenantInfo& tenant : tenants)
    family.samples.push_back({{{"tenant", tenant.name}}, static_cast<double>(value(tenant))});
  return family;
}

Family enforcement(bool is_ok) {
  Family family =
      gauge("sluice_enforcement_ok",
            "1: memory is charged and GPU time divided; 0: nothing new is let through.");
  family.samples = {{{}, is_ok ? 1.0 : 0.0}};
  return family;
}

Family metered(Family family, const std::vector<control::MeteredUse>& uses,
               double store::Use::*value) {
  for (const control::MeteredUse& one : uses)
    family.samples.push_back({{{"tenant", one.tenant}, {"gpu_uuid", one.gpu}}, one.use.*value});
  return family;
}

void add_metered(const std::vector<control::MeteredUse>& uses, std::vector<Family>* out) {
  using store::Use;
  out->push_back(metered(counter("sluice_gpu_seconds_total", "GPU time charged to a tenant."), uses,
                         &Use::gpu_s));
  out->push_back(metered(counter("sluice_reserved_gpu_seconds_total",
                                 "GPU time that was kept for a tenant, used or not."),
                         uses, &Use::reserved_gpu_s));
  out->push_back(metered(
      counter("sluice_mem_byte_seconds_total", "Device memory that a tenant held, times how long."),
      uses, &Use::memory_byte_s));
  out->push_back(metered(counter("sluice_reserved_mem_byte_seconds_total",
                                 "A tenant's slice of memory, times how long it had a session."),
                         uses, &Use::reserved_memory_byte_s));
}

Family throttled(const Tenants& tenants) {
  Family family = counter("sluice_throttled_seconds_total",
                          "Time that a tenant had work to do and no device, and why.");
  for (const control::TenantInfo& tenant : tenants)
    for (std::size_t i = 0; i < tenant.held_us.size(); ++i)
      family.samples.push_back({{{"tenant", tenant.name}, {"reason", kReasons[i]}},
                                static_cast<double>(tenant.held_us[i]) / kUsPerSecond});
  return family;
}

Family memory(const Tenants& tenants) {
  Family family = gauge("sluice_mem_bytes",
                        "Memory that a tenant holds, by kind; what is kept for later is included.");
  for (const control::TenantInfo& tenant : tenants)
    for (std::size_t i = 0; i < kMemoryKindCount; ++i)
      family.samples.push_back(
          {{{"tenant", tenant.name}, {"kind", std::string(kMemoryKindNames[i])}},
           static_cast<double>(tenant.memory_kinds[i])});
  return family;
}

void add_server(const control::ServerInfo& server, std::vector<Family>* out) {
  out->push_back(enforcement(server.is_enforcing));
  Family info = gauge("sluice_info", "Always 1: who the server is.");
  info.samples = {
      {{{"version", server.version}, {"node", server.node}, {"driver", server.driver}}, 1.0}};
  out->push_back(std::move(info));
  Family uptime = gauge("sluice_uptime_seconds", "Since the server started.");
  uptime.samples = {{{}, static_cast<double>(server.uptime_ms) / 1000.0}};
  out->push_back(std::move(uptime));
  Family used = gauge("sluice_device_mem_bytes", "Charged to all tenants of a device.");
  Family overhead = gauge("sluice_device_mem_overhead_bytes",
                          "What contexts, driver and libraries of a device take for themselves.");
  Family total = gauge("sluice_device_mem_total_bytes", "A device's own memory.");
  for (std::size_t i = 0; i < server.devices.size(); ++i) {
    const auto& device = server.devices[i];
    const std::vector<std::pair<std::string, std::string>> labels = {{"gpu", std::to_string(i)},
                                                                     {"name", device.name}};
    used.samples.push_back({labels, static_cast<double>(device.used_bytes)});
    overhead.samples.push_back({labels, static_cast<double>(device.overhead_bytes)});
    total.samples.push_back({labels, static_cast<double>(device.total_bytes)});
  }
  out->push_back(std::move(used));
  out->push_back(std::move(overhead));
  out->push_back(std::move(total));
}

}  // namespace

std::vector<Family> families(const Snapshot& now) {
  using Tenant = control::TenantInfo;
  std::vector<Family> out;
  add_server(now.server, &out);
  const Tenants& all = now.tenants;
  out.push_back(per_tenant(gauge("sluice_sessions", "Sessions that are open."), all,
                           [](const Tenant& t) { return t.sessions; }));
  add_metered(now.metered, &out);
  out.push_back(throttled(all));
  out.push_back(per_tenant(gauge("sluice_compute_guarantee_ratio",
                                 "Part of each device's time that a tenant gets at least."),
                           all, [](const Tenant& t) { return t.share.guarantee; }));
  out.push_back(per_tenant(
      gauge("sluice_compute_limit_ratio", "Part of each device's time that a tenant gets at most."),
      all, [](const Tenant& t) { return t.share.limit; }));
  out.push_back(memory(all));
  out.push_back(per_tenant(
      gauge("sluice_mem_used_bytes", "Memory charged to a tenant's slices, kept memory included."),
      all, [](const Tenant& t) { return t.used_bytes; }));
  out.push_back(
      per_tenant(gauge("sluice_mem_limit_bytes", "A tenant's slice of each device; 0: all of it."),
                 all, [](const Tenant& t) { return t.memory_limit_bytes; }));
  out.push_back(
      per_tenant(counter("sluice_mem_denied_total", "Allocations that a tenant was refused."), all,
                 [](const Tenant& t) { return t.memory_denials; }));
  return out;
}

std::vector<Family> families_of_a_stuck_server() {
  return {enforcement(false)};
}

}  // namespace sluice::server::metrics
