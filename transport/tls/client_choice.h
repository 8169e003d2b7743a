// Whether a client encrypts its control connection, with what, and what it may say on one that it
// does not encrypt. The client libraries and the tools share these rules; neither they nor this
// file need OpenSSL for them.
#pragma once

#include "common/fd.h"
#include "common/result.h"
#include "transport/tls/tls.h"
#include "transport/transport.h"

#include <memory>
#include <string>

namespace sluice::transport::tls {

/// As the user said it: SLUICE_TLS and its relatives, options, the user's file.
struct ClientChoice {
  std::string mode = {};  ///< "on", "off", "auto" or empty, which is auto
  std::string ca_file = {}, certificate_file = {}, key_file = {};
};
/// SLUICE_TLS, SLUICE_TLS_CA, SLUICE_TLS_CERT, SLUICE_TLS_KEY.
ClientChoice choice_from_environment();
/// Err(kInvalidArgument): no such mode, or half a certificate.
Status check(const ClientChoice& choice);

/// TLS is for TCP alone: a UNIX socket does not leave the host. Automatically it is used unless the
/// server is on the loopback interface and no CA was named.
Result<bool> wants_tls(const ClientChoice& choice, int socket);

/// What to say as tenant: a certificate names its own, and who has none and names none is "local".
std::string tenant_to_say(const std::string& given, const ClientChoice& choice, bool is_encrypted);

/// Makes a connected socket the control connection. `find_library` is asked only if TLS is wanted.
/// Err(kPermission) instead of a plain connection over which a token would leave this host.
Result<std::unique_ptr<ByteStream>> open_control(Fd socket, const Address& address,
                                                 const ClientChoice& choice, bool has_token,
                                                 Result<const Library*> (*find_library)(),
                                                 Deadline deadline);

}  // namespace sluice::transport::tls
