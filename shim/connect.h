// From the environment to a session: which server, as whom, and the handshake that ends with a data
// channel to a worker.
#pragma once

#include "common/result.h"
#include "protocol/bootstrap.h"
#include "shim/resumption.h"
#include "transport/stream/byte_stream.h"
#include "transport/transport.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace sluice::shim {

struct Connection {
  std::unique_ptr<transport::Channel> channel;
  std::unique_ptr<transport::ByteStream> life_line;  ///< the bootstrap connection; none in tests
  std::optional<Resumable> resumable;
  wire::Welcome welcome;
  std::string server;  ///< as an operator would write it
};
using Connector = std::function<Result<Connection>()>;

/// SLUICE_SERVER (unix:PATH or HOST[:PORT]), SLUICE_TENANT, SLUICE_TOKEN_FILE or SLUICE_TOKEN. The
/// message of an error names the address, the cause and what to do. Err(kNotFound) if no server is
/// named at all.
Result<Connection> connect_from_environment();

/// Replaces connect_from_environment() for the next cuInit; an empty one puts it back.
void set_connector_for_test(Connector connector);
/// The one in force.
Result<Connection> connect();

}  // namespace sluice::shim
