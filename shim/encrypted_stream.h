// A data connection of an encrypted session: attached like any other, then encrypted with the
// session's key, which never crosses it.
#pragma once

#include "common/result.h"
#include "protocol/bootstrap.h"
#include "transport/stream/byte_stream.h"
#include "transport/tls/tls.h"
#include "transport/transport.h"

#include <memory>

namespace sluice::shim {

/// `attach` is what else the Attach should say; whose session it is and that it is encrypted is
/// added here.
Result<std::unique_ptr<transport::ByteStream>> open_encrypted_stream(
    const transport::Address& address, const wire::Welcome& welcome, wire::Attach attach = {});

/// What follows on a connection that the worker was handed: both ends prove the session's key to
/// each other.
Result<std::unique_ptr<transport::ByteStream>> prove_key(const transport::tls::Library& library,
                                                         Fd socket, std::uint64_t session_id,
                                                         const wire::SessionKey& key,
                                                         transport::Deadline deadline);

}  // namespace sluice::shim
