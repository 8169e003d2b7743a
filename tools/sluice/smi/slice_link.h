// The connection over which a tool looks at its tenant's slice.
#pragma once

#include "common/result.h"
#include "protocol/slice_status.h"
#include "tools/sluice/probe.h"
#include "transport/stream/byte_stream.h"

#include <memory>

namespace sluice::tool {

class SliceLink {
 public:
  /// Err as begin_looking() (protocol/slice_client.h), with the server's address.
  static Result<SliceLink> open(const Target& target);
  /// The slice at this moment. Err: also if the server could not load its driver.
  Result<wire::SliceStatus> look();

 private:
  explicit SliceLink(std::string server, std::unique_ptr<transport::ByteStream> stream)
      : server_(std::move(server)), stream_(std::move(stream)) {}

  std::string server_;
  std::unique_ptr<transport::ByteStream> stream_;
};

}  // namespace sluice::tool
