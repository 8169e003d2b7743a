#include "transport/stream/stream_io.h"

#include "common/format.h"

#include <algorithm>
#include <cstring>

namespace sluice::transport {
namespace {

constexpr std::uint64_t kPieceBytesMax = 1024 * 1024;

Status wait_for(ByteStream& stream, ByteStream::For what, const StillWanted& still_wanted) {
  if (!still_wanted) {
    const auto ready = stream.wait(what, Deadline::max());
    return ready ? Status() : fail(ready.error());
  }
  for (;;) {
    SLUICE_TRY(const bool is_ready, stream.wait(what, Clock::now() + kRecheck));
    if (is_ready) return {};
    SLUICE_CHECK(still_wanted());
  }
}

}  // namespace

Status send_all(ByteStream& stream, std::span<const std::byte> bytes,
                const StillWanted& still_wanted) {
  while (!bytes.empty()) {
    SLUICE_TRY(const std::size_t sent, stream.send_some(bytes));
    bytes = bytes.subspan(sent);
    if (sent == 0) SLUICE_CHECK(wait_for(stream, ByteStream::For::kSend, still_wanted));
  }
  return {};
}

Status receive_all(ByteStream& stream, std::span<std::byte> into, const StillWanted& still_wanted) {
  while (!into.empty()) {
    SLUICE_TRY(const std::size_t got, stream.receive_some(into));
    into = into.subspan(got);
    if (got == 0) SLUICE_CHECK(wait_for(stream, ByteStream::For::kReceive, still_wanted));
  }
  return {};
}

std::span<std::byte> LaneWriter::buffer() {
  const std::span<std::byte> lent = stream_.send_buffer();
  if (!lent.empty()) return lent.first(kBufferBytes);
  own_buffer_.resize(kBufferBytes);
  return own_buffer_;
}

Status LaneWriter::send(std::uint64_t seq, std::span<const std::byte> bytes,
                        const StillWanted& still_wanted) {
  const LaneHeader header{seq, bytes.size()};
  std::size_t used = sizeof header;
  do {
    const std::span<std::byte> piece = buffer();
    if (used > 0) std::memcpy(piece.data(), &header, used);
    const std::size_t taken = std::min(bytes.size(), piece.size() - used);
    if (taken > 0) std::memcpy(piece.data() + used, bytes.data(), taken);
    SLUICE_CHECK(send_all(stream_, piece.first(used + taken), still_wanted));
    bytes = bytes.subspan(taken);
    used = 0;
  } while (!bytes.empty());
  return {};
}

Status discard(ByteStream& stream, std::uint64_t bytes, const StillWanted& still_wanted) {
  std::byte scratch[16 * 1024];
  while (bytes > 0) {
    const std::size_t piece = std::min<std::uint64_t>(bytes, sizeof scratch);
    SLUICE_CHECK(receive_all(stream, {scratch, piece}, still_wanted));
    bytes -= piece;
  }
  return {};
}

Status expect_piece(ByteStream& stream, std::uint64_t seq, std::uint64_t bytes,
                    const StillWanted& still_wanted) {
  for (;;) {
    LaneHeader header;
    SLUICE_CHECK(receive_all(stream, std::as_writable_bytes(std::span(&header, 1)), still_wanted));
    if (header.bytes > kPieceBytesMax || header.seq > seq ||
        (header.seq == seq && header.bytes != bytes))
      return fail(ErrorCode::kProtocol,
                  format("a lane brings {} bytes of record {} instead of {} of record {}",
                         header.bytes, header.seq, bytes, seq));
    if (header.seq == seq) return {};
    SLUICE_CHECK(discard(stream, header.bytes, still_wanted));
  }
}

}  // namespace sluice::transport
