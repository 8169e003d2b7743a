// What a tenant is entitled to on one device, as an administrator sets it.
#pragma once

#include "common/result.h"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

namespace sluice::scheduler {

/// Since any fixed moment, the same for all calls: whoever uses this code brings the clock.
using Time = std::chrono::nanoseconds;
using Duration = std::chrono::nanoseconds;
using TenantId = std::uint64_t;

/// Later ones go before earlier ones, up to their limits.
enum class Class : std::uint8_t { kBestEffort, kStandard, kInteractive, kRealtime };
inline constexpr std::size_t kClassCount = 4;
/// "best-effort", "standard", "interactive", "realtime".
std::optional<Class> parse_class(std::string_view name);
std::string_view class_name(Class cls);

struct Share {
  double guarantee = 0;  ///< fraction of the device's time it gets at least while it has work
  double limit = 1;      ///< fraction that it never gets more of
  double weight = 1;     ///< its part of what is left, against the others'
  Class cls = Class::kStandard;

  bool operator==(const Share&) const = default;
};
inline constexpr double kWeightMin = 0.001, kWeightMax = 1000;

/// Err(kInvalidArgument) names the value and what would be accepted.
Status check(const Share& share);

}  // namespace sluice::scheduler
