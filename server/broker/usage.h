// How much of the devices' time was used lately: totals that only grow, looked at now and then, so
// that a question can be answered for the last second or two. Pure; the caller brings the clock.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <vector>

namespace sluice::server {

/// Of one session, or of one tenant.
class Usage {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Duration = std::chrono::nanoseconds;
  using Totals = std::vector<Duration>;  ///< by device

  /// What had been used by then. Looks closer together than kStep are forgotten, the first is not.
  void note(Time now, Totals totals);
  struct Recent {
    Duration window{0};  ///< how long ago the look is that the totals are compared with
    Totals busy;         ///< never more than the window
  };
  /// The window is kWindow long or longer, up to the distance of two looks; shorter only if there
  /// was no look so long ago.
  [[nodiscard]] Recent recent(Time now, const Totals& totals) const;

  static constexpr std::chrono::milliseconds kWindow{1'000}, kStep{100};

 private:
  struct Look {
    Time when;
    Totals totals;
  };
  std::deque<Look> looks_;  ///< of those older than kWindow the youngest, and all that are younger
};

/// `more` is added, device by device.
void add_to(Usage::Totals& sum, const Usage::Totals& more);

}  // namespace sluice::server
