// The worker's end of the bulk lanes: connections that carry the data of staged copies when client
// and worker share no memory. The decode thread reads a lane when it comes to the record that
// speaks of the data, so that order needs no thought; what goes to the client is sent by a thread
// of each lane, so that neither decoder nor completer ever waits for a client that does not read.
#pragma once

#include "transport/stream/stream_io.h"

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

namespace sluice::server {

class Lanes {
 public:
  explicit Lanes(std::span<const std::unique_ptr<transport::ByteStream>> streams);
  ~Lanes() { stop(); }
  Lanes(const Lanes&) = delete;
  Lanes& operator=(const Lanes&) = delete;

  [[nodiscard]] bool exist() const { return !lanes_.empty(); }
  [[nodiscard]] bool has(std::uint64_t lane) const { return lane < lanes_.size(); }

  /// Decode thread: the piece of record `seq`, straight into `into`. An error ends the session.
  Status receive(std::uint64_t lane, std::uint64_t seq, std::span<std::byte> into);
  /// The same for nobody.
  Status discard(std::uint64_t lane, std::uint64_t seq, std::uint64_t bytes);

  /// Any thread; never blocks. `done` runs once the bytes have been handed over, or cannot be.
  void send(std::uint64_t lane, std::uint64_t seq, std::span<const std::byte> bytes,
            std::function<void()> done);
  /// The streams are closed or about to be: drops what is unsent and ends the threads.
  void stop();

 private:
  struct Piece {
    std::uint64_t seq = 0;
    std::span<const std::byte> bytes;
    std::function<void()> done;
  };
  struct Lane {
    explicit Lane(transport::ByteStream& of) : stream(of), writer(of) {}
    transport::ByteStream& stream;
    transport::LaneWriter writer;
    std::mutex mutex;  ///< guards what follows
    std::condition_variable changed;
    std::deque<Piece> pieces;
    bool is_stopping = false;
    std::thread thread;
  };
  static void serve(Lane& lane);

  std::vector<std::unique_ptr<Lane>> lanes_;
};

}  // namespace sluice::server
