// What the processes of sessions have of a device beyond what they were charged for: contexts,
// driver and libraries. Workers on softgpu measure it, for all other drivers it is measured here.
#include "common/format.h"
#include "common/log.h"
#include "server/broker/broker.h"
#include "server/broker/session.h"

#include <algorithm>
#include <utility>

namespace sluice::server {
namespace {

constexpr std::chrono::milliseconds kInterval{1'000};
/// More than any host has: what a worker says must not make sums overflow.
constexpr std::uint64_t kPinnedBytesMax = std::uint64_t{1} << 47;

}  // namespace

/// It cannot be refused, but it must be possible.
void Broker::on_measured(Session& session, const link::Measured& measured) {
  const bool is_host = measured.kind == MemoryKind::kHostPinned;
  const bool is_possible = is_host ? measured.device == 0 && measured.bytes < kPinnedBytesMax
                                   : measured.kind == MemoryKind::kLibrary &&
                                         measured.device < session.device_bytes.size() &&
                                         measured.bytes <= session.device_bytes[measured.device];
  if (!is_possible)
    return kill_worker(session, format("it says that it has {} bytes of {} on device {}",
                                       measured.bytes, name_of(measured.kind), measured.device));
  // Where the broker measures itself, nobody's word counts.
  if (!is_host && process_watch_ != nullptr && process_watch_->works()) return;
  ledger_.measure(holder(session, measured.device), measured.kind, measured.bytes);
  on_ledger_change(session.tenant.name);
}

void Broker::watch_processes(const link::Ready& ready) {
  if (ready.measures_itself) return;
  if (process_watch_ == nullptr)
    process_watch_ = std::make_unique<ProcessWatch>(
        options_.nvml_library, kInterval,
        [this](std::uint32_t device, const GpuProcesses::Bytes& bytes) {
          post([this, device, bytes] { on_processes(device, bytes); });
        });
  std::vector<GpuProcesses::Uuid> uuids;
  for (const wire::DeviceRecord& device : ready.devices) uuids.push_back(device.uuid);
  process_watch_->set_devices(std::move(uuids));
  process_watch_->poke();
}

/// A worker that is not listed has not touched the device.
void Broker::on_processes(std::uint32_t device, const GpuProcesses::Bytes& bytes) {
  for (const auto& [id, session] : sessions_) {
    if (!session->is_welcome || device >= session->device_bytes.size()) continue;
    const auto found = bytes.find(session->worker.pid);
    const std::uint64_t process =
        found != bytes.end() ? std::min(found->second, session->device_bytes[device]) : 0;
    MemoryByKind known = ledger_.kinds_of(id, device);
    known[index_of(MemoryKind::kLibrary)] = 0;
    const std::uint64_t drawn =
        sum_of(known, MemoryClass::kSlice) + sum_of(known, MemoryClass::kOverhead);
    // What was given back between NVML's look and this one would count as overhead for a moment.
    const std::uint64_t beyond = process > drawn ? process - drawn : 0;
    const std::uint64_t before = std::exchange(session->beyond_bytes[device], beyond);
    ledger_.measure(holder(*session, device), MemoryKind::kLibrary, std::min(beyond, before));
    on_ledger_change(session->tenant.name);
  }
}

}  // namespace sluice::server
