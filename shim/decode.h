// Takes pushed records apart, with every length checked.
#pragma once

#include "common/result.h"
#include "protocol/wire.h"
#include "shim/call.h"

#include <array>
#include <cstring>

namespace sluice::shim {

template <class Record>
struct Decoded {
  Record fixed;
  std::array<Bytes, Record::kBlobs> blobs;
};

/// Err(kProtocol) if the body is not exactly the record and its variable parts.
template <class Record>
Result<Decoded<Record>> decode(Bytes body) {
  Decoded<Record> record{};
  if (body.size() < sizeof(Record))
    return fail(ErrorCode::kProtocol, "a push is shorter than its fixed part");
  std::memcpy(&record.fixed, body.data(), sizeof(Record));
  Bytes rest = body.subspan(sizeof(Record));
  for (std::size_t i = 0; i < record.blobs.size(); ++i) {
    const std::uint64_t bytes = blob_bytes(record.fixed, i);
    if (bytes > rest.size() || wire::padded(bytes) > rest.size())
      return fail(ErrorCode::kProtocol, "a variable part of a push is longer than the push");
    record.blobs[i] = rest.first(bytes);
    rest = rest.subspan(wire::padded(bytes));
  }
  if (!rest.empty()) return fail(ErrorCode::kProtocol, "a push is longer than its parts");
  return record;
}

}  // namespace sluice::shim
