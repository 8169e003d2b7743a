// The framing that every record on a data channel has, and the limits both sides enforce.
//
// A channel carries a sequence of records, each a RecordHeader followed by the fixed part (a packed
// little-endian struct generated from protocol/cuda/*.api) and its variable parts in the order of
// their length fields, each padded to 8 bytes. Requests go from the shim to the worker; replies and
// pushes go back. The worker never trusts any of it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sluice::wire {

inline constexpr std::uint32_t kProtocolVersion = 1;

/// Payload carried inside one record; longer data is cut into several records by the sender.
inline constexpr std::size_t kPayloadBytesMax = 256 * 1024;
/// Largest record a receiver accepts (header, fixed part, variable parts, padding).
inline constexpr std::size_t kRecordBytesMax = kPayloadBytesMax + 64 * 1024;
/// Copy bytes a session may have under way in each direction before the caller waits (bounds worker
/// staging).
inline constexpr std::size_t kCopyWindowBytes = 64 * 1024 * 1024;

/// On a long way that many more are under way between the ends; the worker's staging has room for
/// both directions.
inline constexpr std::size_t kCopyWindowBytesMax = 4 * kCopyWindowBytes;

/// Longest string in an argument (a kernel's name, a path).
inline constexpr std::size_t kStringBytesMax = 4096;

enum RecordFlags : std::uint16_t {
  kFlagReply = 1,       ///< worker -> shim: answers the request with the same seq
  kFlagWantsReply = 2,  ///< shim -> worker: the caller waits
  kFlagPush = 4,        ///< worker -> shim: nobody asked (completions, host data, failures)
};

struct RecordHeader {
  std::uint32_t bytes;   ///< whole record including this header; a multiple of 8
  std::uint16_t opcode;  ///< wire::Opcode
  std::uint16_t flags;   ///< RecordFlags
  std::uint64_t
      seq;  ///< shim -> worker: 1, 2, 3 ...; replies repeat it; pushes: the request they stem from
  std::uint32_t context;  ///< request: wire id of the context to make current, 0 = none
  std::int32_t result;    ///< reply and failure push: a CUresult; request: 0
};
static_assert(sizeof(RecordHeader) == 24);

constexpr std::size_t padded(std::size_t bytes) {
  return (bytes + 7) & ~std::size_t{7};
}

/// How a function or record travels (architecture D7).
enum class Class : std::uint8_t { kLocal, kMemo, kPosted, kCalled, kPushed, kUnsupported };

}  // namespace sluice::wire
