// Takes the body of one received record apart: the fixed part, then the variable parts in order,
// each padded to 8 bytes. Nothing a peer sent is trusted: every length is checked before it is
// used, and a record must be used up exactly.
#pragma once

#include "common/result.h"
#include "protocol/opcodes.h"
#include "protocol/wire.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

namespace sluice::wire {

/// Err(kProtocol) that names the record.
inline tl::unexpected<Error> malformed(std::uint16_t opcode, const char* why) {
  return fail(ErrorCode::kProtocol,
              std::string("record ") + opcode_name(static_cast<Opcode>(opcode)) + ": " + why);
}

/// Copies the fixed part out of `body` (what follows the header) and points `blobs` at the variable
/// parts inside it. Args is a request or record struct, or a Reply (then Count is kReplyBlobs).
template <class Args, std::size_t Count>
Status read_parts(std::uint16_t opcode, std::span<const std::byte> body, Args* args,
                  std::array<std::span<const std::byte>, Count>* blobs) {
  if (body.size() < sizeof(Args)) return malformed(opcode, "shorter than its fixed part");
  std::memcpy(args, body.data(), sizeof(Args));
  std::span<const std::byte> rest = body.subspan(sizeof(Args));
  for (std::size_t i = 0; i < Count; ++i) {
    const std::uint64_t bytes = blob_bytes(*args, i);
    // The first comparison keeps padded() from overflowing.
    if (bytes > rest.size() || padded(bytes) > rest.size())
      return malformed(opcode, "a variable part is longer than the record");
    (*blobs)[i] = rest.first(bytes);
    rest = rest.subspan(padded(bytes));
  }
  if (!rest.empty()) return malformed(opcode, "longer than its parts");
  return {};
}

}  // namespace sluice::wire
