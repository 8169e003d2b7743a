// Who used how much: what the ledger and the turns say, brought to the meter, and what the meter
// has added up, to the state file.
#include "common/gpu_uuid.h"
#include "server/broker/broker.h"
#include "server/broker/printable.h"
#include "server/broker/session.h"

#include <algorithm>

namespace sluice::server {
namespace {

Meter::Now now() {
  return {std::chrono::steady_clock::now().time_since_epoch(),
          std::chrono::system_clock::now().time_since_epoch()};
}

}  // namespace

Status Broker::open_state() {
  SLUICE_TRY(auto state, store::State::open(options_.config.state_dir));
  state_ = std::make_unique<store::State>(std::move(state));
  SLUICE_TRY(tenants_, TenantTable::open(options_.config.tenants, *state_));
  SLUICE_TRY(usage_log_, store::UsageLog::open(*state_));
  meter_ = Meter(usage_log_->totals());
  update_ledger();
  return {};
}

/// Something has changed of what the tenant holds or is entitled to. A reservation counts while the
/// tenant has a session: then nobody else can have it.
void Broker::meter_tenant(const std::string& name) {
  const config::Tenant* tenant = tenants_.find(name);
  const bool has_session = std::any_of(sessions_.begin(), sessions_.end(), [&](const auto& one) {
    return one.second->tenant.name == name && one.second->is_welcome;
  });
  std::uint32_t index = 0;
  for (const wire::DeviceRecord& device : inventory_.devices) {
    Meter::Level level;
    level.memory_bytes = static_cast<double>(ledger_.used_bytes(name, index++));
    if (has_session && tenant != nullptr) {
      level.reserved_memory_bytes =
          static_cast<double>(std::min(tenant->memory_limit_bytes, device.total_bytes));
      level.reserved_gpus = tenant->share.guarantee;
    }
    meter_.hold(now(), {name, gpu_uuid_text(device.uuid)}, level);
  }
}

void Broker::meter_time() {
  for (const auto& [name, used] : usage_) {
    const std::vector<turns::Duration> served = turns_->time_of(name).served;
    const std::size_t count = std::min(served.size(), inventory_.devices.size());
    for (std::size_t i = 0; i < count; ++i)
      meter_.compute(now(), {name, gpu_uuid_text(inventory_.devices[i].uuid)}, served[i]);
  }
}

void Broker::write_usage() {
  meter_time();
  usage_log_->add(meter_.take(now()));
}

void Broker::keep_writing_usage() {
  write_usage();
  at(Clock::now() + options_.times.usage_write, [this] { keep_writing_usage(); });
}

std::vector<control::MeteredUse> Broker::metered() {
  meter_time();
  std::map<Meter::Key, store::Use> all = meter_.totals(now());
  // A counter that is not there before it counts has no beginning.
  for (const config::Tenant& tenant : tenants_.all())
    for (const wire::DeviceRecord& device : inventory_.devices)
      all.try_emplace({tenant.name, gpu_uuid_text(device.uuid)});
  std::vector<control::MeteredUse> out;
  for (const auto& [key, use] : all) out.push_back({printable(key.first), key.second, use});
  return out;
}

std::shared_ptr<store::UsageLog> Broker::usage_log() {
  write_usage();
  return usage_log_;
}

}  // namespace sluice::server
