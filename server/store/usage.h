// What a tenant had of a device, and questions about it.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

namespace sluice::server::store {

/// Used: GPU time that was charged, memory that was held. Reserved: the guarantee and the memory
/// slice that were its own while it had a session, whether it used them or not.
struct Use {
  double gpu_s = 0, reserved_gpu_s = 0;
  double memory_byte_s = 0, reserved_memory_byte_s = 0;

  Use& operator+=(const Use& more) {
    gpu_s += more.gpu_s;
    reserved_gpu_s += more.reserved_gpu_s;
    memory_byte_s += more.memory_byte_s;
    reserved_memory_byte_s += more.reserved_memory_byte_s;
    return *this;
  }
  bool operator==(const Use&) const = default;
};

/// Tenant, and the device's UUID as text.
using UseKey = std::pair<std::string, std::string>;

struct UsageRow {
  std::int64_t hour = 0;  ///< hours since 1970, UTC
  UseKey key;
  Use use;
};

enum class Period : std::uint8_t { kAll, kMonth, kDay, kHour };

struct UsageQuery {
  std::int64_t from_hour = 0, to_hour = 0;  ///< the second not included
  std::string tenant;                       ///< empty: all
  bool by_tenant = true, by_gpu = false;
  Period period = Period::kAll;

  bool operator==(const UsageQuery&) const = default;
};

/// One line of an answer; what was not asked for is empty.
struct UsageGroup {
  std::string period;  ///< 2026-11, 2026-11-30 or 2026-11-30T17:00Z
  std::string tenant, gpu;
  Use use;

  bool operator==(const UsageGroup&) const = default;
};
/// In one answer.
inline constexpr std::size_t kUsageGroupsMax = 50'000;

}  // namespace sluice::server::store
