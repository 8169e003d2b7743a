// Cuts received bytes into whole records and checks their framing. Both ends use it: a damaged
// stream must end the session in an orderly way, never the process.
#pragma once

#include "common/format.h"
#include "common/result.h"
#include "protocol/wire.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

namespace sluice::wire {

/// Takes whole records. An error ends the session.
class RecordHandler {
 public:
  virtual ~RecordHandler() = default;
  virtual Status on_record(const RecordHeader& header, std::span<const std::byte> body) = 0;
};

/// Sink is the transport's interface for received bytes (transport::RecvSink); protocol/ does not
/// know transports. Externally locked (the receiving side of the channel).
template <class Sink>
class RecordAssembler final : public Sink {
 public:
  explicit RecordAssembler(RecordHandler& handler) : handler_(handler) {}

  /// Err(kProtocol) for a length that no record can have.
  Status on_bytes(std::span<const std::byte> bytes) override {
    if (!partial_.empty()) SLUICE_CHECK(take_partial(bytes));
    while (bytes.size() >= kHeaderBytes) {
      SLUICE_TRY(const auto header, read_header(bytes));
      if (header.bytes > bytes.size()) break;
      SLUICE_CHECK(
          handler_.on_record(header, bytes.subspan(kHeaderBytes, header.bytes - kHeaderBytes)));
      bytes = bytes.subspan(header.bytes);
    }
    partial_.insert(partial_.end(), bytes.begin(), bytes.end());
    return {};
  }

 private:
  static constexpr std::size_t kHeaderBytes = sizeof(RecordHeader);

  static Result<RecordHeader> read_header(std::span<const std::byte> bytes) {
    RecordHeader header{};
    std::memcpy(&header, bytes.data(), kHeaderBytes);
    if (header.bytes < kHeaderBytes || header.bytes > kRecordBytesMax || header.bytes % 8 != 0)
      return fail(ErrorCode::kProtocol, format("a record of {} bytes cannot be", header.bytes));
    return header;
  }

  Status take_partial(std::span<const std::byte>& bytes) {
    const auto take = [&](std::size_t wanted_bytes) {
      const std::size_t n = std::min(bytes.size(), wanted_bytes - partial_.size());
      partial_.insert(partial_.end(), bytes.begin(),
                      bytes.begin() + static_cast<std::ptrdiff_t>(n));
      bytes = bytes.subspan(n);
      return partial_.size() == wanted_bytes;
    };
    if (partial_.size() < kHeaderBytes && !take(kHeaderBytes)) return {};
    SLUICE_TRY(const auto header, read_header(partial_));
    if (partial_.capacity() < header.bytes) partial_.reserve(header.bytes);
    if (!take(header.bytes)) return {};
    Status status =
        handler_.on_record(header, std::span<const std::byte>(partial_).subspan(kHeaderBytes));
    partial_.clear();
    return status;
  }

  RecordHandler& handler_;
  std::vector<std::byte> partial_;  ///< head of a record whose rest has not arrived
};

}  // namespace sluice::wire
