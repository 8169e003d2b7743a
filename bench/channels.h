// The channels by themselves: latency, command rate and bandwidth beside a plain socket.
#pragma once

#include "figure.h"

#include <string>
#include <vector>

namespace sluice::bench {

struct ChannelOptions {
  std::size_t message_bytes = 64;
  std::size_t rounds = 20'000;
  std::size_t command_count = 640'000;
  std::size_t batch = 64;
  std::size_t bulk_mib = 256;
  std::size_t staging_kib = 64;
  unsigned repeats = 3;
};

/// `kind`: loop, unix, tcp, tcp-tls, shm. Both ends in this process.
std::vector<Figure> measure_channels(const std::string& kind, const ChannelOptions& options);

}  // namespace sluice::bench
