// As frame_io.h, on a connection that may be encrypted: anything with send_some(), receive_some()
// and wait() as transport/stream/byte_stream.h describes them, which this folder does not know.
#pragma once

#include "protocol/bootstrap.h"
#include "protocol/frame_io.h"

#include <span>
#include <vector>

namespace sluice::wire {

namespace detail {

template <class Stream>
Status wait_for_stream(Stream& stream, typename Stream::For what, FrameDeadline deadline) {
  SLUICE_TRY(const bool is_ready, stream.wait(what, deadline));
  if (!is_ready) return fail(ErrorCode::kTimeout, "the peer did not answer in time");
  return {};
}

template <class Stream>
Status read_exactly(Stream& stream, std::span<std::byte> into, FrameDeadline deadline) {
  while (!into.empty()) {
    SLUICE_TRY(const std::size_t got, stream.receive_some(into));
    into = into.subspan(got);
    if (got == 0) SLUICE_CHECK(wait_for_stream(stream, Stream::For::kReceive, deadline));
  }
  return {};
}

}  // namespace detail

template <class Stream>
Status write_frame_to(Stream& stream, const Frame& frame,
                      FrameDeadline deadline = FrameDeadline::max()) {
  const std::vector<std::byte> bytes = encode_frame(frame);
  std::span<const std::byte> rest = bytes;
  while (!rest.empty()) {
    SLUICE_TRY(const std::size_t sent, stream.send_some(rest));
    rest = rest.subspan(sent);
    if (sent == 0) SLUICE_CHECK(detail::wait_for_stream(stream, Stream::For::kSend, deadline));
  }
  return {};
}

/// Takes no byte behind the frame.
template <class Stream>
Result<Frame> read_frame_from(Stream& stream, FrameDeadline deadline) {
  std::vector<std::byte> bytes(kFramePrefixBytes);
  SLUICE_CHECK(detail::read_exactly(stream, std::span(bytes), deadline));
  SLUICE_TRY(const std::size_t total, frame_bytes(bytes));
  bytes.resize(total);
  SLUICE_CHECK(detail::read_exactly(stream, std::span(bytes).subspan(kFramePrefixBytes), deadline));
  return decode_frame(bytes);
}

}  // namespace sluice::wire
