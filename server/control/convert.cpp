#include "server/control/convert.h"

#include <algorithm>
#include <limits>

namespace sluice::server::control {
namespace {

ErrorCode code_from(const std::string& name) {
  for (int i = 0; i <= static_cast<int>(ErrorCode::kInternal); ++i)
    if (name == error_code_name(static_cast<ErrorCode>(i))) return static_cast<ErrorCode>(i);
  return ErrorCode::kInternal;
}

template <class Number>
std::int64_t or_unset(const std::optional<Number>& value) {
  constexpr std::uint64_t kMax = std::numeric_limits<std::int64_t>::max();
  return value ? static_cast<std::int64_t>(std::min<std::uint64_t>(*value, kMax)) : -1;
}
std::int64_t or_unset(const std::optional<std::chrono::milliseconds>& value) {
  return value ? value->count() : -1;
}

/// Both ways; a newer side may know more kinds than the other.
template <class List>
void write_kinds(const MemoryByKind& from, List to) {
  for (unsigned i = 0; i < to.size(); ++i) to.set(i, from[i]);
}
template <class List>
MemoryByKind read_kinds(List from) {
  MemoryByKind to{};
  for (unsigned i = 0; i < std::min<std::size_t>(from.size(), to.size()); ++i) to[i] = from[i];
  return to;
}

}  // namespace

void write(const ServerInfo& from, capnp_control::Server::Builder to) {
  to.setVersion(from.version);
  to.setNode(from.node);
  to.setDriver(from.driver);
  auto addresses = to.initAddresses(static_cast<unsigned>(from.addresses.size()));
  for (unsigned i = 0; i < addresses.size(); ++i) addresses.set(i, from.addresses[i]);
  to.setConfigFile(from.config_file);
  to.setStateFile(from.state_file);
  to.setUptimeMs(from.uptime_ms);
  to.setSessions(from.sessions);
  to.setMaxSessions(from.max_sessions);
  auto devices = to.initDevices(static_cast<unsigned>(from.devices.size()));
  for (unsigned i = 0; i < devices.size(); ++i) {
    devices[i].setName(from.devices[i].name);
    devices[i].setTotalBytes(from.devices[i].total_bytes);
    devices[i].setUsedBytes(from.devices[i].used_bytes);
    devices[i].setOverheadBytes(from.devices[i].overhead_bytes);
  }
}

ServerInfo read(capnp_control::Server::Reader from) {
  ServerInfo to;
  to.version = text(from.getVersion());
  to.node = text(from.getNode());
  to.driver = text(from.getDriver());
  for (const auto address : from.getAddresses()) to.addresses.push_back(text(address));
  to.config_file = text(from.getConfigFile());
  to.state_file = text(from.getStateFile());
  to.uptime_ms = from.getUptimeMs();
  to.sessions = from.getSessions();
  to.max_sessions = from.getMaxSessions();
  for (const auto device : from.getDevices())
    to.devices.push_back({text(device.getName()), device.getTotalBytes(), device.getUsedBytes(),
                          device.getOverheadBytes()});
  return to;
}

void write(const SessionInfo& from, capnp_control::Session::Builder to) {
  to.setId(from.id);
  to.setTenant(from.tenant);
  to.setHost(from.host);
  to.setProgram(from.program);
  to.setClientPid(from.client_pid);
  to.setWorkerPid(from.worker_pid);
  to.setState(from.state);
  to.setAgeMs(from.age_ms);
  to.setIdleMs(from.idle_ms);
  to.setCalls(from.calls);
  to.setWaits(from.waits);
  to.setBytesIn(from.bytes_in);
  to.setBytesOut(from.bytes_out);
  to.setGpuUs(from.gpu_us);
  to.setMemoryBytes(from.memory_bytes);
  to.setMemoryPeakBytes(from.memory_peak_bytes);
  write_kinds(from.memory_kinds, to.initMemoryKinds(kMemoryKindCount));
}

SessionInfo read(capnp_control::Session::Reader from) {
  SessionInfo to;
  to.id = from.getId();
  to.tenant = text(from.getTenant());
  to.host = text(from.getHost());
  to.program = text(from.getProgram());
  to.client_pid = from.getClientPid();
  to.worker_pid = from.getWorkerPid();
  to.state = text(from.getState());
  to.age_ms = from.getAgeMs();
  to.idle_ms = from.getIdleMs();
  to.calls = from.getCalls();
  to.waits = from.getWaits();
  to.bytes_in = from.getBytesIn();
  to.bytes_out = from.getBytesOut();
  to.gpu_us = from.getGpuUs();
  to.memory_bytes = from.getMemoryBytes();
  to.memory_peak_bytes = from.getMemoryPeakBytes();
  to.memory_kinds = read_kinds(from.getMemoryKinds());
  return to;
}

void write(const TenantInfo& from, capnp_control::Tenant::Builder to) {
  to.setName(from.name);
  to.setSource(from.source);
  to.setHasToken(from.has_token);
  to.setMemoryLimitBytes(from.memory_limit_bytes);
  to.setMaxSessions(from.max_sessions);
  to.setIdleTimeoutMs(from.idle_timeout_ms);
  to.setMaxDurationMs(from.max_duration_ms);
  to.setSessions(from.sessions);
  to.setMemoryDenials(from.memory_denials);
  to.setUsedBytes(from.used_bytes);
  write_kinds(from.memory_kinds, to.initMemoryKinds(kMemoryKindCount));
  to.setChargesContext(from.charges_context);
  to.setGuarantee(from.share.guarantee);
  to.setLimit(from.share.limit);
  to.setWeight(from.share.weight);
  to.setClass(std::string(scheduler::class_name(from.share.cls)));
  to.setServedUs(from.served_us);
  auto held = to.initHeldUs(static_cast<unsigned>(from.held_us.size()));
  for (unsigned i = 0; i < held.size(); ++i) held.set(i, from.held_us[i]);
}

TenantInfo read(capnp_control::Tenant::Reader from) {
  TenantInfo to;
  to.name = text(from.getName());
  to.source = text(from.getSource());
  to.has_token = from.getHasToken();
  to.memory_limit_bytes = from.getMemoryLimitBytes();
  to.max_sessions = from.getMaxSessions();
  to.idle_timeout_ms = from.getIdleTimeoutMs();
  to.max_duration_ms = from.getMaxDurationMs();
  to.sessions = from.getSessions();
  to.used_bytes = from.getUsedBytes();
  to.memory_kinds = read_kinds(from.getMemoryKinds());
  to.charges_context = from.getChargesContext();
  to.share = {from.getGuarantee(), from.getLimit(), from.getWeight(),
              scheduler::parse_class(text(from.getClass())).value_or(scheduler::Class::kStandard)};
  to.served_us = from.getServedUs();
  to.memory_denials = from.getMemoryDenials();
  const auto held = from.getHeldUs();
  for (unsigned i = 0; i < std::min<std::size_t>(held.size(), to.held_us.size()); ++i)
    to.held_us[i] = held[i];
  return to;
}

void write(const Changed& from, capnp_control::Changed::Builder to) {
  write(from.tenant, to.initTenant());
  to.setToken(from.token);
  to.setWarning(from.warning);
}

Changed read(capnp_control::Changed::Reader from) {
  return {read(from.getTenant()), text(from.getToken()), text(from.getWarning())};
}

void write(const std::string& name, const config::TenantOverride& from,
           capnp_control::TenantChange::Builder to) {
  to.setName(name);
  to.setMemoryLimitBytes(or_unset(from.memory_limit_bytes));
  to.setMaxSessions(or_unset(from.max_sessions));
  to.setIdleTimeoutMs(or_unset(from.idle_timeout));
  to.setMaxDurationMs(or_unset(from.max_duration));
  to.setGuarantee(from.share.guarantee.value_or(-1));
  to.setLimit(from.share.limit.value_or(-1));
  to.setWeight(from.share.weight.value_or(-1));
  if (from.share.cls) to.setClass(std::string(scheduler::class_name(*from.share.cls)));
}

config::TenantOverride read(capnp_control::TenantChange::Reader from) {
  config::TenantOverride to;
  if (from.getMemoryLimitBytes() >= 0)
    to.memory_limit_bytes = static_cast<std::uint64_t>(from.getMemoryLimitBytes());
  if (from.getMaxSessions() >= 0)
    to.max_sessions = static_cast<std::uint32_t>(
        std::min<std::int64_t>(from.getMaxSessions(), config::kSessionCountMax));
  if (from.getIdleTimeoutMs() >= 0)
    to.idle_timeout = std::chrono::milliseconds(from.getIdleTimeoutMs());
  if (from.getMaxDurationMs() >= 0)
    to.max_duration = std::chrono::milliseconds(from.getMaxDurationMs());
  // Whether they can be is checked where they are applied.
  const auto unless_unset = [](double value, std::optional<double>* out) {
    if (!(value < 0)) *out = value;
  };
  unless_unset(from.getGuarantee(), &to.share.guarantee);
  unless_unset(from.getLimit(), &to.share.limit);
  unless_unset(from.getWeight(), &to.share.weight);
  to.share.cls = scheduler::parse_class(text(from.getClass()));
  return to;
}

void write(const Error& from, capnp_control::Problem::Builder to) {
  to.setCode(error_code_name(from.code));
  to.setMessage(from.message);
}

Status read(capnp_control::Problem::Reader from) {
  if (from.getCode().size() == 0) return {};
  return fail(code_from(text(from.getCode())), text(from.getMessage()));
}

void write(const store::UsageQuery& from, capnp_control::UsageQuery::Builder to) {
  to.setFromHour(from.from_hour);
  to.setToHour(from.to_hour);
  to.setTenant(from.tenant);
  to.setByTenant(from.by_tenant);
  to.setByGpu(from.by_gpu);
  to.setPeriod(static_cast<capnp_control::Period>(from.period));
}

store::UsageQuery read(capnp_control::UsageQuery::Reader from) {
  store::UsageQuery to;
  to.from_hour = from.getFromHour();
  to.to_hour = from.getToHour();
  to.tenant = text(from.getTenant());
  to.by_tenant = from.getByTenant();
  to.by_gpu = from.getByGpu();
  const auto period = static_cast<unsigned>(from.getPeriod());
  constexpr auto kLast = static_cast<unsigned>(store::Period::kHour);
  to.period = static_cast<store::Period>(std::min(period, kLast));  // a newer tool's: the finest
  return to;
}

void write(const store::UsageGroup& from, capnp_control::UsageGroup::Builder to) {
  to.setPeriod(from.period);
  to.setTenant(from.tenant);
  to.setGpu(from.gpu);
  to.setGpuS(from.use.gpu_s);
  to.setReservedGpuS(from.use.reserved_gpu_s);
  to.setMemoryByteS(from.use.memory_byte_s);
  to.setReservedMemoryByteS(from.use.reserved_memory_byte_s);
}

store::UsageGroup read(capnp_control::UsageGroup::Reader from) {
  return {text(from.getPeriod()),
          text(from.getTenant()),
          text(from.getGpu()),
          {from.getGpuS(), from.getReservedGpuS(), from.getMemoryByteS(),
           from.getReservedMemoryByteS()}};
}

}  // namespace sluice::server::control
