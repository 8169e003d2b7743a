// What CUDA calls cost through the client library, on a driver that costs nothing.
#pragma once

#include "figure.h"
#include "raw_peer.h"

#include <string>
#include <vector>

namespace sluice::bench {

struct CallOptions {
  std::string transport;  ///< shm, unix, tcp; none: the stand-in driver in this process
  std::size_t rounds = 5'000;
  std::size_t launches = 100'000;
  std::vector<std::size_t> copy_kib{64, 1024, 16 * 1024, 256 * 1024};
  unsigned repeats = 5;
  bool has_calls = true, has_copies = true;
};

/// Loads the client library, which finds the server in the environment, and measures. Ends the
/// process with a message when a call fails.
std::vector<Figure> measure_calls(const std::string& library, const CallOptions& options);

}  // namespace sluice::bench
