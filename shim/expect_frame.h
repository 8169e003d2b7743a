// Reading the frame that must come next in the handshake.
#pragma once

#include "protocol/bootstrap.h"
#include "protocol/frame_io.h"
#include "protocol/stream_frames.h"

#include <chrono>
#include <utility>

namespace sluice::shim {

/// The broker may have to start a worker and a driver before it answers.
inline constexpr std::chrono::seconds kFrameTimeout{30};

/// The frame of the expected type; a refusal becomes an error with the server's own words.
template <class Wanted>
Result<Wanted> expect(wire::Frame frame) {
  if (auto* wanted = std::get_if<Wanted>(&frame)) return std::move(*wanted);
  if (const auto* refusal = std::get_if<wire::Refusal>(&frame))
    return fail(ErrorCode::kPermission, "the server refused: " + refusal->message);
  return fail(ErrorCode::kProtocol,
              "the server answered with an unexpected frame; is another service on this address?");
}

template <class Wanted>
Result<Wanted> expect_frame(int fd) {
  SLUICE_TRY(auto frame, wire::read_frame(fd, std::chrono::steady_clock::now() + kFrameTimeout));
  return expect<Wanted>(std::move(frame));
}
template <class Wanted, class Stream>
Result<Wanted> expect_frame(Stream& stream) {
  SLUICE_TRY(auto frame,
             wire::read_frame_from(stream, std::chrono::steady_clock::now() + kFrameTimeout));
  return expect<Wanted>(std::move(frame));
}

}  // namespace sluice::shim
