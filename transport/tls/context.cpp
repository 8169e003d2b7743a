#include "transport/tls/context.h"

#include "common/format.h"
#include "transport/tls/engine.h"
#include "transport/tls/openssl_error.h"

#include <openssl/ssl.h>

#include <mutex>

namespace sluice::transport::tls {
namespace {

constexpr const char* kCiphers = "TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256";
/// A shared secret belongs to one hash, hence one cipher; every machine with a GPU has it in
/// hardware.
constexpr const char* kSessionCipher = "TLS_AES_256_GCM_SHA384";

/// Neither a configuration file of the machine nor a handler at the end of the process: this code
/// may be a guest in a program with an OpenSSL of its own.
void start_openssl() {
  static std::once_flag once;
  std::call_once(once, [] {
    OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT | OPENSSL_INIT_NO_LOAD_CONFIG, nullptr);
    OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG, nullptr);
  });
}

/// An encrypted key file is refused: nobody is there to be asked.
int no_password(char*, int, int, void*) {
  return -1;
}

Result<Context> make_context(Role role, const char* ciphers) {
  start_openssl();
  Context context(SSL_CTX_new(role == Role::kClient ? TLS_client_method() : TLS_server_method()),
                  SSL_CTX_free);
  if (context == nullptr) return fail(openssl_error("starting TLS"));
  SSL_CTX* const c = context.get();
  const bool is_set = SSL_CTX_set_min_proto_version(c, TLS1_3_VERSION) == 1 &&
                      SSL_CTX_set_max_proto_version(c, TLS1_3_VERSION) == 1 &&
                      SSL_CTX_set_ciphersuites(c, ciphers) == 1 &&
                      SSL_CTX_set1_groups_list(c, "X25519:P-256:P-384") == 1 &&
                      SSL_CTX_set_num_tickets(c, 0) == 1;
  if (!is_set) return fail(openssl_error("setting up TLS"));
  SSL_CTX_set_security_level(c, 2);
  SSL_CTX_set_session_cache_mode(c, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_options(c, SSL_OP_NO_TICKET | SSL_OP_CIPHER_SERVER_PREFERENCE);
  SSL_CTX_set_default_passwd_cb(c, no_password);
  return context;
}

Status take_certificate(SSL_CTX* c, const std::string& certificate, const std::string& key) {
  if (SSL_CTX_use_certificate_chain_file(c, certificate.c_str()) != 1)
    return fail(openssl_error(format("certificate {}", certificate)));
  if (SSL_CTX_use_PrivateKey_file(c, key.c_str(), SSL_FILETYPE_PEM) != 1)
    return fail(openssl_error(format("private key {} (for certificate {})", key, certificate)));
  if (SSL_CTX_check_private_key(c) != 1)
    return fail(ErrorCode::kInvalidArgument,
                format("private key {} does not belong to certificate {}", key, certificate));
  return {};
}

}  // namespace

Result<Context> make_client_context(const ClientSettings& settings) {
  SLUICE_TRY(Context context, make_context(Role::kClient, kCiphers));
  SSL_CTX* const c = context.get();
  SSL_CTX_set_verify(c, SSL_VERIFY_PEER, Engine::note_refused);
  if (settings.ca_file.empty())
    SSL_CTX_set_default_verify_paths(c);
  else if (SSL_CTX_load_verify_file(c, settings.ca_file.c_str()) != 1)
    return fail(openssl_error(format("CA file {}", settings.ca_file)));
  if (settings.certificate_file.empty() != settings.key_file.empty())
    return fail(ErrorCode::kInvalidArgument,
                "a client certificate and its private key are given together or not at all");
  if (!settings.certificate_file.empty())
    SLUICE_CHECK(take_certificate(c, settings.certificate_file, settings.key_file));
  return context;
}

Result<Context> make_server_context(const ServerSettings& settings) {
  SLUICE_TRY(Context context, make_context(Role::kServer, kCiphers));
  SSL_CTX* const c = context.get();
  SLUICE_CHECK(take_certificate(c, settings.certificate_file, settings.key_file));
  if (settings.client_ca_file.empty()) return context;
  if (SSL_CTX_load_verify_file(c, settings.client_ca_file.c_str()) != 1)
    return fail(openssl_error(format("client CA file {}", settings.client_ca_file)));
  SSL_CTX_set_client_CA_list(c, SSL_load_client_CA_file(settings.client_ca_file.c_str()));
  SSL_CTX_set_verify(
      c,
      SSL_VERIFY_PEER |
          (settings.require_client_certificate ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : SSL_VERIFY_NONE),
      Engine::note_refused);
  return context;
}

Result<Context> session_context(Role role) {
  // Never destroyed: connections may outlive the end of main().
  static const auto* const client = new Result<Context>([] {
    auto made = make_context(Role::kClient, kSessionCipher);
    if (!made) return made;
    // A peer that shows a certificate instead of the secret is not ours: none is trusted.
    SSL_CTX_set_verify(made->get(), SSL_VERIFY_PEER, Engine::note_refused);
    SSL_CTX_set_psk_use_session_callback(made->get(), Engine::offer_secret);
    return made;
  }());
  static const auto* const server = new Result<Context>([] {
    auto made = make_context(Role::kServer, kSessionCipher);
    if (made) SSL_CTX_set_psk_find_session_callback(made->get(), Engine::find_secret);
    return made;
  }());
  return role == Role::kClient ? *client : *server;
}

}  // namespace sluice::transport::tls
