// Whole pieces over a stream of bytes, and bulk lanes: streams beside a channel that carry nothing
// but the data of which its records speak.
#pragma once

#include "transport/stream/byte_stream.h"

#include <cstdint>
#include <functional>
#include <vector>

namespace sluice::transport {

/// What a blocking transfer does every kRecheck while it waits: an error ends it.
using StillWanted = std::function<Status()>;
inline constexpr std::chrono::milliseconds kRecheck{50};

/// Blocks while the peer is slow.
Status send_all(ByteStream& stream, std::span<const std::byte> bytes,
                const StillWanted& still_wanted = {});
/// Blocks until `into` is full.
Status receive_all(ByteStream& stream, std::span<std::byte> into,
                   const StillWanted& still_wanted = {});

/// Goes before each piece on a lane, so that ends which disagree notice. Little-endian, packed.
struct LaneHeader {
  std::uint64_t seq = 0;    ///< of the record that speaks of the piece; grows towards the worker
  std::uint64_t bytes = 0;  ///< that follow
};

/// One end's sending side of a lane. Pieces go through a small buffer that stays hot in the cache,
/// the stream's own if it has one. Externally locked.
class LaneWriter {
 public:
  explicit LaneWriter(ByteStream& stream) : stream_(stream) {}
  Status send(std::uint64_t seq, std::span<const std::byte> bytes,
              const StillWanted& still_wanted = {});

 private:
  static constexpr std::size_t kBufferBytes = ByteStream::kLentBytesMin;
  std::span<std::byte> buffer();

  ByteStream& stream_;
  std::vector<std::byte> own_buffer_;  ///< if the stream lends none
};

/// Receives the header of the piece that belongs to record `seq`; pieces of earlier records, which
/// nobody took, are passed over. Err(kProtocol): it is not `bytes` long, or never was sent.
Status expect_piece(ByteStream& stream, std::uint64_t seq, std::uint64_t bytes,
                    const StillWanted& still_wanted = {});
/// Receives so many bytes for nobody.
Status discard(ByteStream& stream, std::uint64_t bytes, const StillWanted& still_wanted = {});

}  // namespace sluice::transport
