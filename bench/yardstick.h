// The three shapes of traffic that sluice-perf measures, done with the fewest possible lines on a
// plain socket. A channel is judged by its ratio to these, taken in the same run: absolute times
// say more about the machine than about us.
#pragma once

#include <cstddef>
#include <span>

namespace sluice::bench {

/// Seconds from the first to the last byte, both ends of a connected socket given.
struct Ends {
  int client = -1, server = -1;
};

/// `rounds` requests of `bytes`, each answered with as many; one duration per round goes into
/// `round_us`.
void raw_ping_pong(Ends ends, std::size_t bytes, std::span<double> round_us);
/// Records of `bytes` in groups of `batch`, one send() per group, and one answer at the end.
double raw_commands_s(Ends ends, std::size_t bytes, std::size_t batch, std::size_t count);
/// `from` to `to` through staging buffers of `staging_bytes` at both ends; 0 = straight from and to
/// the user's memory.
double raw_bulk_s(Ends ends, std::span<const std::byte> from, std::span<std::byte> to,
                  std::size_t staging_bytes);

}  // namespace sluice::bench
