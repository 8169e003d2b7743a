// What the dispatcher and the policies keep of one tenant on one device.
#pragma once

#include "scheduler/device/bucket.h"
#include "scheduler/device/share.h"

#include <array>
#include <cstdint>
#include <deque>
#include <optional>

namespace sluice::scheduler {

using Ticket = std::uint64_t;

/// Why a tenant with work is not served.
enum class Reason : std::uint8_t {
  kShare,   ///< it is the others' turn
  kLimit,   ///< it has used its limit
  kWindow,  ///< it is served, and enough of it is under way
};
inline constexpr std::size_t kReasonCount = 3;

struct TenantState {
  TenantId id = 0;
  Share share;
  struct Waiting {
    Ticket ticket;
    std::optional<Duration> estimate;
  };
  std::deque<Waiting> waiting;
  unsigned running = 0;  ///< granted and not completed

  /// Virtual start time: device time received, divided by the weight; who has least goes first.
  double tag_ns = 0;
  /// When the guarantee is due next.
  Time due{};
  Bucket bucket;
  bool was_limited = false;  ///< at the last look the bucket was closed

  Duration served{0};                         ///< measured time of what has completed
  std::array<Duration, kReasonCount> held{};  ///< by Reason: time that it had work and waited
  [[nodiscard]] bool has_work() const { return !waiting.empty(); }
  [[nodiscard]] bool is_idle() const { return waiting.empty() && running == 0; }
};

}  // namespace sluice::scheduler
