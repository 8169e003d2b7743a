// Cuts the bytes that arrive from the worker into whole records and checks their framing: the worker is trusted with the
// application's data, but a damaged stream must end the session in an orderly way, never the application.
#pragma once

#include "protocol/wire.h"
#include "transport/transport.h"

#include <cstddef>
#include <span>
#include <vector>

namespace sluice::shim {

/// Takes whole records. An error ends the session.
class RecordHandler {
 public:
  virtual ~RecordHandler() = default;
  virtual Status on_record(const wire::RecordHeader& header, std::span<const std::byte> body) = 0;
};

/// Externally locked (the receiving side of the channel).
class RecordAssembler final : public transport::RecvSink {
 public:
  explicit RecordAssembler(RecordHandler& handler) : handler_(handler) {}
  /// Err(kProtocol) for a length that no record can have.
  Status on_bytes(std::span<const std::byte> bytes) override;

 private:
  Status take_partial(std::span<const std::byte>& bytes);

  RecordHandler& handler_;
  std::vector<std::byte> partial_;  ///< head of a record whose rest has not arrived
};

}  // namespace sluice::shim
