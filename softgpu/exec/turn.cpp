#include "softgpu/exec/turn.h"

#include <time.h>

namespace sluice::softgpu {
namespace {

/// How often a thread without permission looks whether it is wanted any more.
constexpr unsigned kPatienceUs = 10'000;

std::atomic<const sluice_turn_hooks*>& table() {
  static std::atomic<const sluice_turn_hooks*> hooks{nullptr};
  return hooks;
}

}  // namespace

bool set_turn_hooks(const sluice_turn_hooks* hooks) {
  if (hooks != nullptr && hooks->version != kTurnHooksVersion) return false;
  table().store(hooks, std::memory_order_release);
  return true;
}

const sluice_turn_hooks* turn_hooks() {
  return table().load(std::memory_order_acquire);
}

Turn::Turn(unsigned device, const std::function<bool()>& stops) : device_(device), stops_(stops) {
  if (const auto* hooks = turn_hooks(); hooks != nullptr) {
    word_ = hooks->open_word(hooks->user, device);
    until_ns_ = hooks->open_until(hooks->user, device);
  }
  begin();
}

bool Turn::is_open() const {
  if (__atomic_load_n(word_, __ATOMIC_RELAXED) == 0) return false;
  timespec now{};  // a few nanoseconds; late by a few milliseconds, which does not matter here
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
             static_cast<std::uint64_t>(now.tv_nsec) <
         __atomic_load_n(until_ns_, __ATOMIC_RELAXED);
}

void Turn::begin() {
  const auto* hooks = word_ != nullptr ? turn_hooks() : nullptr;
  while (!has_begun_ && !(stops_ && stops_()))
    has_begun_ = hooks == nullptr || hooks->begin(hooks->user, device_, kPatienceUs);
}

void Turn::end() {
  if (!has_begun_) return;
  has_begun_ = false;
  if (const auto* hooks = word_ != nullptr ? turn_hooks() : nullptr; hooks != nullptr)
    hooks->end(hooks->user, device_);
}

}  // namespace sluice::softgpu
