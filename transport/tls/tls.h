// TLS 1.3 for connections that cross a network: the control connection by certificates, the data
// connections by the session's own key. Free of OpenSSL: a client library sees only this, and gets
// the implementation from libsluice_tls.so, which has an OpenSSL of its own and shows it to nobody;
// daemons and tools link the same code.
#pragma once

#include "common/fd.h"
#include "common/result.h"
#include "transport/stream/byte_stream.h"
#include "transport/transport.h"

#include <array>
#include <cstdint>
#include <memory>
#include <string>

namespace sluice::transport::tls {

/// What a client expects and shows on the control connection.
struct ClientSettings {
  std::string ca_file;                     ///< PEM; empty: the CAs that the system trusts
  std::string certificate_file, key_file;  ///< PEM; both or none
  std::string host;  ///< the name or IP address that the server's certificate must be for
};

struct ServerSettings {
  std::string certificate_file, key_file;  ///< PEM
  std::string client_ca_file;              ///< empty: no client is asked for a certificate
  bool require_client_certificate = false;

  bool operator==(const ServerSettings&) const = default;
};

/// What both ends of a data connection know and nobody else: no certificate is needed, and each end
/// proves the secret to the other.
struct SessionSecret {
  std::string identity;  ///< crosses the network in the clear
  std::array<std::uint8_t, 32> key{};
};

/// Both calls take a connected socket, do the handshake until the deadline, and give the stream
/// that encrypts. Errors say what the user can do.
class Library {
 public:
  virtual ~Library() = default;
  /// Err(kPermission): the two do not trust each other. Err(kProtocol): the peer speaks no TLS.
  [[nodiscard]] virtual Result<std::unique_ptr<ByteStream>> connect(Fd socket,
                                                                    const ClientSettings& settings,
                                                                    Deadline deadline) const = 0;
  [[nodiscard]] virtual Result<std::unique_ptr<ByteStream>> connect_session(
      Fd socket, const SessionSecret& secret, Deadline deadline) const = 0;
};

/// Of whoever links sluice_tls.
const Library& linked_library();

/// What libsluice_tls.so exports; a null pointer if it is of another build.
inline constexpr const char* kLibrarySymbol = "sluice_tls_library";
inline constexpr unsigned kLibraryVersion = 1;  ///< of everything in this header
using LibraryFunction = const Library* (*)(unsigned version);

}  // namespace sluice::transport::tls
