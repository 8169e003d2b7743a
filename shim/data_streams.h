// The connections of a session that carry its data: that for records, and lanes for bulk data
// beside it. Each is composed in one order, from the socket outwards: TLS with the session's key,
// resumption, the emulated link.
#pragma once

#include "common/fd.h"
#include "common/result.h"
#include "protocol/bootstrap.h"
#include "shim/resumption.h"
#include "transport/emulate/link.h"
#include "transport/stream/byte_stream.h"
#include "transport/transport.h"

#include <cstdint>
#include <memory>

namespace sluice::shim {

/// SLUICE_EMULATE; null: the network as it is.
Result<std::shared_ptr<transport::emulate::Link>> emulated_link();

class DataStreams {
 public:
  struct Session {
    const transport::Address& address;
    const wire::Welcome& welcome;
    bool is_encrypted = false;
    Resumable* resumable = nullptr;  ///< the streams are noted there; null: none is
    std::shared_ptr<transport::emulate::Link> link;
  };
  explicit DataStreams(Session session) : session_(std::move(session)) {}

  /// How many lanes to announce: SLUICE_LANES, or what is best on that wire, as far as the server
  /// knows lanes and these connections can be lanes.
  [[nodiscard]] Result<std::uint8_t> lanes_wanted() const;
  /// A new connection, attached as `attach` says; the key or the session's number is added here.
  [[nodiscard]] Result<Fd> attach(wire::Attach attach) const;
  /// The stream over a connection that was attached as `attach` said; in the order of the lanes.
  [[nodiscard]] Result<std::unique_ptr<transport::ByteStream>> make(
      Fd socket, const wire::Attach& attach) const;
  /// The lanes that `attach` announced; all are asked for before the first answer is awaited.
  [[nodiscard]] Result<transport::Lanes> open_lanes(wire::Attach attach) const;

 private:
  [[nodiscard]] Result<Fd> ask(wire::Attach attach) const;

  Session session_;
};

}  // namespace sluice::shim
