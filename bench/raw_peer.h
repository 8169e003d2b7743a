// The yardstick of calls: a second process that answers as fast as the host can, with the fewest
// possible instructions, over each of the ways that a transport could use. What is measured through
// Sluice is divided by what this takes in the same minute.
#pragma once

#include "common/fd.h"

#include <cstddef>
#include <span>

namespace sluice::bench {

/// How the two processes wait for each other.
enum class RawWay { kSpin, kFutex, kUnix, kTcp };

/// Starts the process. Make it before the driver: it forks.
class RawPeer {
 public:
  explicit RawPeer(bool with_tcp);
  ~RawPeer();
  RawPeer(const RawPeer&) = delete;
  RawPeer& operator=(const RawPeer&) = delete;

  /// The duration of each round trip of one cache line goes into `round_us`. Gives how many there
  /// were in a second, if not all: spinning on a busy machine can take for ever.
  std::size_t ping_pong(RawWay way, std::span<double> round_us);
  /// Seconds that `count` records of 64 bytes take, handed over in groups of 64: through a ring in
  /// memory, or one send() per group.
  double commands_s(RawWay way, std::size_t count);
  /// Seconds that the data takes to the peer's memory and an answer back, or from there, through a
  /// socket and a small buffer at either end that stays in the cache.
  double send_s(RawWay way, std::span<const std::byte> data);
  double fetch_s(RawWay way, std::span<std::byte> into);

 private:
  struct Shared;
  [[nodiscard]] int socket(RawWay way) const {
    return way == RawWay::kUnix ? unix_.get() : tcp_.get();
  }
  [[noreturn]] void serve(int unix_fd, int tcp_fd);
  void order(unsigned mode, std::size_t count);
  void ping_pong_all(RawWay way, std::span<double> round_us);

  Shared* shared_ = nullptr;
  Fd unix_, tcp_;
  int pid_ = -1;
};

}  // namespace sluice::bench
