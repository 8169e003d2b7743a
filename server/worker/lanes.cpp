#include "server/worker/lanes.h"

namespace sluice::server {

Lanes::Lanes(std::span<const std::unique_ptr<transport::ByteStream>> streams) {
  for (const auto& stream : streams) lanes_.push_back(std::make_unique<Lane>(*stream));
}

Status Lanes::receive(std::uint64_t lane, std::uint64_t seq, std::span<std::byte> into) {
  transport::ByteStream& stream = lanes_[lane]->stream;
  SLUICE_CHECK(transport::expect_piece(stream, seq, into.size()));
  return transport::receive_all(stream, into);
}

Status Lanes::discard(std::uint64_t lane, std::uint64_t seq, std::uint64_t bytes) {
  transport::ByteStream& stream = lanes_[lane]->stream;
  SLUICE_CHECK(transport::expect_piece(stream, seq, bytes));
  return transport::discard(stream, bytes);
}

void Lanes::send(std::uint64_t lane, std::uint64_t seq, std::span<const std::byte> bytes,
                 std::function<void()> done) {
  Lane& to = *lanes_[lane];
  const std::lock_guard lock(to.mutex);
  to.pieces.push_back({seq, bytes, std::move(done)});
  if (!to.thread.joinable() && !to.is_stopping) to.thread = std::thread([&to] { serve(to); });
  to.changed.notify_one();
}

void Lanes::serve(Lane& lane) {
  Status alive;
  std::unique_lock lock(lane.mutex);
  for (;;) {
    lane.changed.wait(lock, [&] { return lane.is_stopping || !lane.pieces.empty(); });
    if (lane.is_stopping) return;
    const Piece piece = std::move(lane.pieces.front());
    lane.pieces.pop_front();
    lock.unlock();
    if (alive) alive = lane.writer.send(piece.seq, piece.bytes);
    piece.done();
    lock.lock();
  }
}

void Lanes::stop() {
  for (const auto& lane : lanes_) {
    lane->stream.close();
    const std::lock_guard lock(lane->mutex);
    lane->is_stopping = true;
    lane->changed.notify_all();
  }
  for (const auto& lane : lanes_)
    if (lane->thread.joinable()) lane->thread.join();
}

}  // namespace sluice::server
