// What many TLS connections have in common: versions, ciphers, certificates, whom to trust. For
// those who link sluice_tls.
#pragma once

#include "common/result.h"
#include "transport/tls/tls.h"

#include <memory>

struct ssl_ctx_st;

namespace sluice::transport::tls {

using Context = std::shared_ptr<ssl_ctx_st>;

/// Err names the file that cannot be used and why.
Result<Context> make_client_context(const ClientSettings& settings);
Result<Context> make_server_context(const ServerSettings& settings);

enum class Role { kClient, kServer };
/// For connections whose ends share a secret; no certificate is shown or believed.
Result<Context> session_context(Role role);

}  // namespace sluice::transport::tls
