// A network that is farther away than the real one: what a program would feel over a link of a
// given round trip, bandwidth and jitter, without that link (SLUICE_EMULATE). One link carries all
// connections of a process; emulated_stream.h puts a connection on it.
#pragma once

#include "common/result.h"
#include "transport/transport.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <random>
#include <string_view>

namespace sluice::transport::emulate {

struct LinkSpec {
  std::chrono::nanoseconds rtt{0};
  std::chrono::nanoseconds jitter{0};  ///< each way takes up to this much longer
  double bytes_per_s = 0;              ///< in each direction; 0 = no limit
};

/// "rtt=30ms,bw=1gbit,jitter=2ms", each part at most once, any of them left out. Times in us, ms or
/// s, bandwidth in kbit, mbit or gbit (a second, powers of ten). Err(kInvalidArgument) names the
/// part and what would be accepted.
Result<LinkSpec> parse_link(std::string_view text);

/// Thread-safe.
class Link {
 public:
  explicit Link(const LinkSpec& spec) : spec_(spec) {}

  enum class Way { kOut, kIn };
  /// When a sender may next put bytes on the link: a time in the past or now if it may at once. A
  /// link has a short queue in front of it and holds its senders back beyond that.
  Deadline ready_at(Way way);
  /// Puts so many bytes on the link now; they arrive at the time it returns.
  Deadline carry(Way way, std::size_t bytes);

  [[nodiscard]] const LinkSpec& spec() const { return spec_; }

 private:
  const LinkSpec spec_;
  std::mutex mutex_;
  Deadline free_at_[2] = {};  ///< when the last bit of what was given has left
  std::minstd_rand random_{1};
};

}  // namespace sluice::transport::emulate
