// What a tenant may know about its slice without a session: the frames by which NVML, `sluice smi`
// and the like look at it. They travel on a connection whose Hello had kFeatureCheckOnly and
// kFeatureSliceStatus; no worker is started for it.
//   shim -> broker   SliceQuery    as often as it likes, one at a time
//   broker -> shim   SliceStatus
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace sluice::wire {

struct SliceQuery {
  std::uint8_t wants_identity = 0;  ///< 1: names, UUIDs, PCI addresses and attributes, too

  bool operator==(const SliceQuery&) const = default;
};

struct SliceDevice {
  std::string name;
  std::array<std::uint8_t, 16> uuid{};
  std::string pci_bus_id;
  std::uint64_t total_bytes = 0;     ///< the slice, not the hardware
  std::uint64_t used_bytes = 0;      ///< by the tenant's sessions together, without what they keep
  std::uint64_t busy_us = 0;         ///< GPU time of the tenant since the server started
  std::uint64_t recent_busy_us = 0;  ///< of it, within the last SliceStatus::recent_us
  /// As in DeviceRecord.
  std::vector<std::pair<std::int32_t, std::int32_t>> attributes;

  bool operator==(const SliceDevice&) const = default;
};

/// One session on one device. Travels as it lies in memory.
struct SliceUse {
  std::uint32_t device = 0, reserved = 0;
  std::uint64_t memory_bytes = 0;  ///< in use
  std::uint64_t spare_bytes = 0;   ///< kept beside that, as far as the session has told
  std::uint64_t busy_us = 0;
  std::uint64_t recent_busy_us = 0;  ///< within the last SliceSession::recent_us

  bool operator==(const SliceUse&) const = default;
};
static_assert(sizeof(SliceUse) == 40);

struct SliceSession {
  std::uint64_t session_id = 0;
  std::int32_t pid = 0;  ///< of the client, on its host
  std::string host, program;
  std::uint64_t age_ms = 0;
  std::uint64_t recent_us = 0;
  std::vector<SliceUse> uses;  ///< one for every device that it uses

  bool operator==(const SliceSession&) const = default;
};

struct SliceStatus {
  std::int32_t driver_version = 0;  ///< min(shim, server driver), as in Welcome
  std::string driver_release;       ///< "580.65.06", of the server's driver; empty: not known
  std::string node, tenant;
  std::string problem;  ///< why there are no devices; empty: nothing is wrong
  /// The tenant's share of each device's time, in millionths, and its weight in thousandths.
  std::uint32_t guarantee_ppm = 0, limit_ppm = 0, weight_milli = 0;
  std::string share_class;
  std::uint64_t recent_us = 0;  ///< how long "recent" is: the last second or two
  std::uint64_t wall_clock_us = 0;
  std::uint32_t sessions_left_out = 0;  ///< there are more than kSliceSessionCountMax
  std::vector<SliceDevice> devices;
  std::vector<SliceSession> sessions;

  bool operator==(const SliceStatus&) const = default;
};

inline constexpr std::size_t kSliceSessionCountMax = 128;

}  // namespace sluice::wire
