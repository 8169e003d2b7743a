#include "server/worker/memory_account.h"

#include <algorithm>
#include <utility>

namespace sluice::server {

void MemoryAccount::hold(const Amount& amount) {
  Device& device = devices_[amount.device];
  device.held_bytes += amount.bytes;
  if (class_of(amount.kind) != MemoryClass::kSlice) return;
  slice_bytes_ += amount.bytes;
  peak_bytes_ = std::max<std::uint64_t>(peak_bytes_, slice_bytes_);
}

void MemoryAccount::give_back(const Amount& amount) {
  devices_[amount.device].held_bytes -= amount.bytes;
  if (class_of(amount.kind) == MemoryClass::kSlice) slice_bytes_ -= amount.bytes;
  if (amount.bytes > 0) ledger_.refund(amount.device, amount.kind, amount.bytes);
}

void MemoryAccount::note_made(const Key& key, const Amount& amount, CUcontext context) {
  if (amount.bytes == 0) return;
  const std::lock_guard lock(mutex_);
  Made& made = made_[key];
  const std::uint64_t before = made.amount.bytes;
  made = {amount, context};
  made.amount.bytes += before;
}

void MemoryAccount::begin_release() {
  const std::lock_guard lock(mutex_);
  ++releases_;
}

void MemoryAccount::end_release(const Key& key, bool is_released) {
  const std::lock_guard lock(mutex_);
  --releases_;
  released_.notify_all();
  const auto found = made_.find(key);
  if (!is_released || found == made_.end()) return;
  give_back(found->second.amount);
  made_.erase(found);
}

void MemoryAccount::forget_context(CUcontext context) {
  std::erase_if(made_, [&](const auto& item) {
    if (item.second.context != context) return false;
    give_back(item.second.amount);
    return true;
  });
}

/// A driver's figure may be of another granularity than ours: less than what was drawn is nothing.
std::uint64_t MemoryAccount::beyond_bytes(std::uint32_t device) const {
  const std::uint64_t process = process_bytes_ ? process_bytes_(device).value_or(0) : 0;
  const auto found = devices_.find(device);
  const std::uint64_t held = found != devices_.end() ? found->second.held_bytes : 0;
  return process > held ? process - held : 0;
}

std::uint64_t MemoryAccount::begin_measuring(std::uint32_t device) {
  std::unique_lock lock(mutex_);
  released_.wait(lock, [this] { return releases_ == 0; });
  is_measuring_ = true;
  devices_.try_emplace(device);
  return beyond_bytes(device);
}

/// Between the samples other threads may free: beyond_bytes() does not change by that.
bool MemoryAccount::end_measuring(Amount* amount, std::uint64_t before, bool has_made) {
  std::unique_lock lock(mutex_);
  released_.wait(lock, [this] { return releases_ == 0; });
  const std::uint64_t after = has_made ? beyond_bytes(amount->device) : before;
  amount->bytes = after > before ? after - before : 0;
  bool is_granted = true;
  if (amount->bytes > 0) {
    lock.unlock();  // what other threads free may be what the ledger waits for
    is_granted = ledger_.charge(amount->device, amount->kind, amount->bytes).is_granted;
    lock.lock();
    if (is_granted) hold(*amount);
  }
  is_measuring_ = false;
  return is_granted;
}

void MemoryAccount::report(std::uint64_t pinned_bytes) {
  // Whoever draws memory may wait for the ledger: the signs of life must not wait with it.
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock() || is_measuring_ || releases_ > 0) return;
  for (auto& [number, device] : devices_) {
    const std::uint64_t beyond = beyond_bytes(number);
    if (beyond == std::exchange(device.reported_beyond_bytes, beyond)) continue;
    ledger_.measured(number, MemoryKind::kLibrary, beyond);
  }
  if (pinned_bytes != std::exchange(reported_pinned_bytes_, pinned_bytes))
    ledger_.measured(0, MemoryKind::kHostPinned, pinned_bytes);
}

}  // namespace sluice::server
