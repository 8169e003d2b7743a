// What follows on a data connection of an encrypted session once the worker has been handed it:
// both ends prove to each other that they know the session's key, which never crosses it, and which
// of the session's connections it is.
#pragma once

#include "common/fd.h"
#include "common/result.h"
#include "protocol/bootstrap.h"
#include "transport/stream/byte_stream.h"
#include "transport/tls/tls.h"

#include <cstddef>
#include <cstdint>
#include <memory>

namespace sluice::shim {

struct Proof {
  std::uint64_t session_id = 0;
  wire::SessionKey key{};
  std::size_t lane = 0, lane_count = 0;  ///< as in wire::Attach
};
Result<std::unique_ptr<transport::ByteStream>> prove_key(const transport::tls::Library& library,
                                                         Fd socket, const Proof& proof,
                                                         transport::Deadline deadline);

}  // namespace sluice::shim
