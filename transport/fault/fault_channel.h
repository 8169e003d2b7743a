// A channel that behaves as badly as the contract allows, for tests: it cuts what it carries into
// pieces of any size, dawdles, and may end in the middle of a record. The choices depend on the
// seed alone.
#pragma once

#include "transport/transport.h"

namespace sluice::transport {

struct Faults {
  std::uint64_t seed = 1;
  std::size_t piece_bytes_max =
      0;  ///< deliver and send in pieces of 1 to this many bytes; 0 = leave them whole
  std::chrono::microseconds delay_max{
      0};  ///< now and then sleep 0 to this long before sending or delivering
  std::uint64_t cut_after_sent_bytes = UINT64_MAX;  ///< close after exactly so many bytes were sent
  std::uint64_t cut_after_received_bytes =
      UINT64_MAX;  ///< close after exactly so many bytes were delivered
};

/// Wraps `inner`; the same rules as for any channel hold.
std::unique_ptr<Channel> make_fault_channel(std::unique_ptr<Channel> inner, const Faults& faults);

}  // namespace sluice::transport
