// A TLS connection as a stream of bytes. For those who link sluice_tls.
#pragma once

#include "transport/tls/engine.h"

namespace sluice::transport::tls {

/// `engine` is one on `socket`, its handshake over.
std::unique_ptr<ByteStream> make_tls_stream(Fd socket, std::unique_ptr<Engine> engine);

/// Does the handshake until the deadline, then as above.
Result<std::unique_ptr<ByteStream>> complete(Fd socket, std::unique_ptr<Engine> engine,
                                             Deadline deadline);

}  // namespace sluice::transport::tls
