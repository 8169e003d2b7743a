// Clients that only look at their tenant's slice: NVML, `sluice smi`. They have no session, take no
// part of the device and start no worker. A tenant is told of its own sessions and of nobody
// else's, not even that there are others.
#include "common/format.h"
#include "common/log.h"
#include "server/broker/broker.h"
#include "server/broker/session.h"

#include <algorithm>

namespace sluice::server {
namespace {

/// At the same time, for each tenant: they cost a descriptor each.
constexpr std::ptrdiff_t kObserversMax = 64;

template <class Duration>
std::uint64_t in_us(Duration time) {
  const auto us = std::chrono::duration_cast<std::chrono::microseconds>(time).count();
  return us > 0 ? static_cast<std::uint64_t>(us) : 0;
}

std::uint32_t scaled(double value, double unit) {
  return static_cast<std::uint32_t>(std::max(0.0, value * unit + 0.5));
}

Usage::Duration part(const Usage::Totals& totals, std::size_t device) {
  return device < totals.size() ? totals[device] : Usage::Duration(0);
}

}  // namespace

void Broker::begin_observing(const std::shared_ptr<Client>& client, const config::Tenant& tenant,
                             const wire::Hello& hello) {
  const auto count = std::count_if(clients_.begin(), clients_.end(), [&](const auto& one) {
    return one.second->observer && one.second->observer->tenant == tenant.name;
  });
  if (count >= kObserversMax)
    return refuse(client, wire::RefusalCode::kTenantFull,
                  format("tenant \"{}\" has {} programs that look at its slice, which is the "
                         "limit; end one (nvidia-smi, nvtop and the like)",
                         tenant.name, count));
  client->observer = Observer{tenant.name, hello.cuda_version, {}};
  watch_silence(client->fd.get());
  SLUICE_LOG_DEBUG("session", "tenant={} client={}:{} program={} looks at its slice", tenant.name,
                   hello.host, hello.pid, hello.program);
  if (!send(*client, welcome_of(hello))) close_client(client);
}

void Broker::on_slice_query(const std::shared_ptr<Client>& client, const wire::SliceQuery& query) {
  std::optional<Observer>& observer = client->observer;
  if (!observer || observer->waiting) return close_client(client);  // it must wait for the answer
  observer->waiting = query;
  const bool is_known = inventory_.driver_version != 0;
  const bool has_just_failed = !inventory_problem_.empty() &&
                               Clock::now() - inventory_started_ < options_.times.inventory_retry;
  if (is_known || has_just_failed) return answer_observer(client);
  take_inventory();  // which answers
}

void Broker::answer_waiting_observers() {
  const auto clients = clients_;  // a copy: one that does not read is closed
  for (const auto& [fd, client] : clients) answer_observer(client);
}

void Broker::answer_observer(const std::shared_ptr<Client>& client) {
  std::optional<Observer>& observer = client->observer;
  if (!observer || !observer->waiting) return;
  const wire::SliceQuery query = *observer->waiting;
  observer->waiting.reset();
  const config::Tenant* tenant = tenants_.find(observer->tenant);
  // A tenant that was removed has no slice.
  if (tenant == nullptr || !send(*client, slice_of(*tenant, *observer, query)))
    close_client(client);
}

wire::SliceStatus Broker::slice_of(const config::Tenant& tenant, const Observer& observer,
                                   const wire::SliceQuery& query) const {
  wire::SliceStatus out;
  const wire::Welcome known = welcome_of({});
  out.driver_version = std::min(inventory_.driver_version, observer.cuda_version);
  out.driver_release = inventory_release_;
  out.node = known.node;
  out.wall_clock_us = known.wall_clock_us;
  out.tenant = tenant.name;
  if (inventory_.driver_version == 0) out.problem = inventory_problem_;
  out.guarantee_ppm = scaled(tenant.share.guarantee, 1e6);
  out.limit_ppm = scaled(tenant.share.limit, 1e6);
  out.weight_milli = scaled(tenant.share.weight, 1e3);
  out.share_class = scheduler::class_name(tenant.share.cls);
  const Usage::Totals busy = busy_of_tenant(tenant.name);
  const auto used = usage_.find(tenant.name);
  const Usage::Recent recent =
      used != usage_.end() ? used->second.usage.recent(Clock::now(), busy) : Usage::Recent{};
  out.recent_us = in_us(recent.window);
  out.devices = slice_devices(tenant, busy, recent, query);
  for (const auto& [id, session] : sessions_) {
    if (session->tenant.name != tenant.name || !session->is_welcome || session->is_ending) continue;
    if (out.sessions.size() < wire::kSliceSessionCountMax)
      out.sessions.push_back(slice_session(*session));
    else
      ++out.sessions_left_out;
  }
  return out;
}

std::vector<wire::SliceDevice> Broker::slice_devices(const config::Tenant& tenant,
                                                     const Usage::Totals& busy,
                                                     const Usage::Recent& recent,
                                                     const wire::SliceQuery& query) const {
  std::vector<wire::SliceDevice> out;
  for (const wire::DeviceRecord& device : inventory_.devices) {
    const std::size_t index = out.size();
    wire::SliceDevice& one = out.emplace_back();
    one.total_bytes = tenant.memory_limit_bytes != 0
                          ? std::min(tenant.memory_limit_bytes, device.total_bytes)
                          : device.total_bytes;
    const auto number = static_cast<std::uint32_t>(index);
    one.used_bytes =
        ledger_.used_bytes(tenant.name, number) - ledger_.spare_bytes(tenant.name, number);
    one.busy_us = in_us(part(busy, index));
    one.recent_busy_us = in_us(part(recent.busy, index));
    if (query.wants_identity == 0) continue;
    one.name = device.name;
    one.uuid = device.uuid;
    one.pci_bus_id = device.pci_bus_id;
    one.attributes = device.attributes;
  }
  return out;
}

wire::SliceSession Broker::slice_session(const Session& session) const {
  wire::SliceSession out;
  out.session_id = session.id;
  out.pid = session.hello.pid;
  out.host = session.hello.host;
  out.program = session.hello.program;
  const auto now = Clock::now();
  out.age_ms = in_us(now - session.started) / 1000;
  const Usage::Totals busy = turns_->busy_of(session.id);
  const Usage::Recent recent = session.usage.recent(now, busy);
  out.recent_us = in_us(recent.window);
  const bool has_choice = session.device_bytes.size() > 1;
  for (std::uint32_t i = 0; i < session.device_bytes.size(); ++i) {
    const std::uint64_t spare_bytes = ledger_.spare_bytes(session.id, i);
    const wire::SliceUse use{i,
                             0,
                             ledger_.held_bytes(session.id, i) - spare_bytes,
                             spare_bytes,
                             in_us(part(busy, i)),
                             in_us(part(recent.busy, i))};
    // A session has all devices; what it has never touched it does not use.
    if (!has_choice || use.memory_bytes > 0 || use.busy_us > 0) out.uses.push_back(use);
  }
  return out;
}

Usage::Totals Broker::busy_of_tenant(const std::string& tenant) const {
  Usage::Totals sum;
  if (const auto used = usage_.find(tenant); used != usage_.end()) sum = used->second.before;
  for (const auto& [id, session] : sessions_)
    if (session->tenant.name == tenant) add_to(sum, turns_->busy_of(id));
  return sum;
}

void Broker::note_usage() {
  const auto now = Clock::now();
  for (const auto& [id, session] : sessions_) session->usage.note(now, turns_->busy_of(id));
  for (auto& [name, used] : usage_) used.usage.note(now, busy_of_tenant(name));
}

}  // namespace sluice::server
