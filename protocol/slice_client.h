// The client's side of looking at a slice, on a fresh control connection, encrypted or not: the
// client libraries and the tools share it.
#pragma once

#include "protocol/opcodes.h"
#include "protocol/slice_status.h"
#include "protocol/stream_frames.h"
#include "protocol/wire.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

namespace sluice::wire {

namespace detail {

inline ErrorCode code_of(RefusalCode code) {
  if (code == RefusalCode::kVersion) return ErrorCode::kVersion;
  return code == RefusalCode::kServer ? ErrorCode::kUnsupported : ErrorCode::kPermission;
}

template <class Wanted, class Stream>
Result<Wanted> read_answer(Stream& stream, FrameDeadline deadline) {
  SLUICE_TRY(Frame frame, read_frame_from(stream, deadline));
  if (auto* wanted = std::get_if<Wanted>(&frame)) return std::move(*wanted);
  if (const auto* refusal = std::get_if<Refusal>(&frame))
    return fail(code_of(refusal->code), "the server refused: " + refusal->message);
  return fail(ErrorCode::kProtocol,
              "the server answered with an unexpected frame; is another service on this address?");
}

}  // namespace detail

/// Who asks is in `hello`; what else a Hello must hold is filled in. Afterwards ask_slice() may be
/// called as often as one likes. Err(kPermission): the server does not let this tenant in;
/// Err(kVersion): the two releases do not fit.
template <class Stream>
Status begin_looking(Stream& stream, Hello hello, FrameDeadline deadline) {
  hello.protocol_version = kProtocolVersion;
  hello.opcode_table_hash = kOpcodeTableHash;
  hello.feature_bits = kFeatureCheckOnly | kFeatureSliceStatus;
  SLUICE_CHECK(write_frame_to(stream, hello, deadline));
  SLUICE_TRY(const Welcome welcome, detail::read_answer<Welcome>(stream, deadline));
  if ((welcome.feature_bits & kFeatureSliceStatus) == 0)
    return fail(ErrorCode::kVersion,
                "the server is too old to tell what a slice holds; update the server");
  return {};
}

template <class Stream>
Result<SliceStatus> ask_slice(Stream& stream, bool wants_identity, FrameDeadline deadline) {
  SLUICE_CHECK(
      write_frame_to(stream, SliceQuery{static_cast<std::uint8_t>(wants_identity)}, deadline));
  return detail::read_answer<SliceStatus>(stream, deadline);
}

/// How much of the tenant's share of a device was used: 100 is all that its limit allows.
inline unsigned busy_percent(const SliceStatus& status, std::uint64_t busy_us,
                             std::uint64_t window_us) {
  const double limit = status.limit_ppm != 0 ? status.limit_ppm / 1e6 : 1;
  const double available_us = static_cast<double>(window_us) * limit;
  if (available_us <= 0) return 0;
  return static_cast<unsigned>(
      std::clamp(100 * static_cast<double>(busy_us) / available_us + 0.5, 0.0, 100.0));
}

inline std::uint64_t free_bytes(const SliceDevice& device) {
  return device.total_bytes > device.used_bytes ? device.total_bytes - device.used_bytes : 0;
}

/// Empty if the driver has no such attribute (CUdevice_attribute).
inline std::optional<std::int32_t> attribute_of(const SliceDevice& device, std::int32_t attribute) {
  for (const auto& [id, value] : device.attributes)
    if (id == attribute) return value;
  return std::nullopt;
}

}  // namespace sluice::wire
