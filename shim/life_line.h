// The session's first connection, as long as the session lives: its end is the session's, and on it
// the server shows that it is alive. It is asked only while somebody depends on an answer: a client
// that computes for itself costs nothing and is not disturbed. A server that only falls silent is
// looked for over new connections, if the session can be resumed.
#pragma once

#include "common/result.h"
#include "protocol/bootstrap.h"
#include "shim/resumption.h"
#include "transport/stream/byte_stream.h"

#include <chrono>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace sluice::shim {

/// Thread-safe.
class LifeLine {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Milliseconds = std::chrono::milliseconds;
  struct Heartbeat {
    Milliseconds interval{0};  ///< 0: the server is not asked
    Milliseconds timeout{0};   ///< silence of the server or its worker for so long is their end
  };
  /// What the server advises, or SLUICE_HEARTBEAT_MS and SLUICE_HEARTBEAT_TIMEOUT_MS; none if it
  /// does not know heartbeats.
  static Heartbeat heartbeat_of(const wire::Welcome& welcome);

  using ByteStream = transport::ByteStream;
  /// Without a connection (tests) it never ends.
  LifeLine(std::unique_ptr<ByteStream> stream, Heartbeat heartbeat,
           std::optional<Resumable> resumable = {});
  explicit LifeLine(std::unique_ptr<ByteStream> stream)
      : LifeLine(std::move(stream), Heartbeat{}) {}

  /// Call it again and again while somebody waits: why the session is over, or nothing.
  std::optional<Error> watch(Time now);
  /// Call it when the worker is gone: what the server says about it, if it says that within
  /// `patience`. A worker's connection may end before the news of its end is here.
  std::optional<Error> last_word(Milliseconds patience);
  /// Whether cut connections are replaced.
  [[nodiscard]] bool is_resumable() const { return resumption_ != nullptr; }
  /// The session is over for us: the server need not wait for the process to end.
  void give_up() noexcept;
  /// In a forked child.
  void abandon_in_child() noexcept;

 private:
  static constexpr Milliseconds kLookInterval{20};

  /// Nothing: it is there, or its replacement is being sought.
  std::optional<Error> look(Time now);
  void take(std::unique_ptr<ByteStream> replacement);
  bool seek_replacement(Time silent_since);
  [[nodiscard]] bool survives(ByteStream::Ending ending) const;
  std::optional<Error> read(Time now);
  bool take_bytes(Time now);
  std::optional<Error> take_frames();
  std::optional<Error> take(const wire::Frame& frame);
  std::optional<Error> judge(Time now);
  void ping(Time now);

  Heartbeat heartbeat_;
  std::mutex mutex_;  ///< guards what follows
  std::unique_ptr<ByteStream> stream_;
  Time last_look_{}, last_ping_{};
  Time silent_since_{};  ///< the oldest moment for which the server owes an answer
  std::uint64_t pings_ = 0, pongs_ = 0;
  std::uint64_t pings_before_rest_ = 0;
  std::vector<std::byte> unread_;
  bool is_given_up_ = false;
  std::unique_ptr<Resumption> resumption_;  ///< itself not guarded; last: its thread uses the rest
};

}  // namespace sluice::shim
