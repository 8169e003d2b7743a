// The handshake of an engine: the steps, the secret of a session, and every way to fail in words.
#include "common/format.h"
#include "transport/tls/engine.h"

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <cstring>

namespace sluice::transport::tls {
namespace {

constexpr unsigned char kSessionCipherId[] = {0x13, 0x02};  // TLS_AES_256_GCM_SHA384
constexpr std::string_view kTenantUri = "sluice:tenant/";

std::string text_of(const ASN1_STRING* text) {
  return {reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
          static_cast<std::size_t>(ASN1_STRING_length(text))};
}

struct FreeNames {
  void operator()(GENERAL_NAMES* names) const { GENERAL_NAMES_free(names); }
};
using Names = std::unique_ptr<GENERAL_NAMES, FreeNames>;

Names alternative_names(const X509* certificate) {
  return Names(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
}

std::string common_name(const X509* certificate) {
  const X509_NAME* const subject = X509_get_subject_name(certificate);
  const int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
  return at < 0 ? "" : text_of(X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)));
}

std::string ip_text(const ASN1_OCTET_STRING* address) {
  const unsigned char* const b = ASN1_STRING_get0_data(address);
  const int bytes = ASN1_STRING_length(address);
  if (bytes == 4) return format("{}.{}.{}.{}", b[0], b[1], b[2], b[3]);
  std::string out;
  for (int i = 0; i + 1 < bytes; i += 2)
    out += format("{}{:x}", i > 0 ? ":" : "", b[i] << 8 | b[i + 1]);
  return out;
}

/// Whom a server's certificate is for.
std::string hosts_of(const X509* certificate) {
  std::string out;
  const Names names = alternative_names(certificate);
  for (int i = 0; names != nullptr && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* const name = sk_GENERAL_NAME_value(names.get(), i);
    std::string one;
    if (name->type == GEN_DNS) one = text_of(name->d.dNSName);
    if (name->type == GEN_IPADD) one = ip_text(name->d.iPAddress);
    if (!one.empty()) out += (out.empty() ? "" : ", ") + one;
  }
  return out.empty() ? "nobody" : out;
}

std::string time_text(const ASN1_TIME* time) {
  tm parts{};
  if (ASN1_TIME_to_tm(time, &parts) != 1) return "?";
  return format("{:04}-{:02}-{:02} {:02}:{:02} UTC", parts.tm_year + 1900, parts.tm_mon + 1,
                parts.tm_mday, parts.tm_hour, parts.tm_min);
}

}  // namespace

Result<bool> Engine::handshake() {
  ERR_clear_error();
  const int done = SSL_do_handshake(ssl_.get());
  const int error = done == 1 ? SSL_ERROR_NONE : SSL_get_error(ssl_.get(), done);
  // Flushed in any case: of a failure the peer learns by an alert.
  const Status sent = flush();
  if (error == SSL_ERROR_WANT_READ) {
    SLUICE_CHECK(sent);
    return false;
  }
  if (error != SSL_ERROR_NONE) {
    failure_ = handshake_error(error);
    return fail(*failure_);
  }
  SLUICE_CHECK(sent);
  if (secret_ && SSL_session_reused(ssl_.get()) != 1)
    return fail(ErrorCode::kPermission, "TLS: the peer does not know the session's key");
  if (has_unsent()) return false;
  if (secret_) OPENSSL_cleanse(secret_->key.data(), secret_->key.size());
  secret_.reset();
  return true;
}

// ---- the secret of a session

SSL_SESSION* Engine::session_of_secret() const {
  if (!secret_) return nullptr;
  SSL_SESSION* const session = SSL_SESSION_new();
  const SSL_CIPHER* const cipher = SSL_CIPHER_find(ssl_.get(), kSessionCipherId);
  if (session != nullptr && cipher != nullptr &&
      SSL_SESSION_set1_master_key(session, secret_->key.data(), secret_->key.size()) == 1 &&
      SSL_SESSION_set_cipher(session, cipher) == 1 &&
      SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1)
    return session;
  SSL_SESSION_free(session);
  return nullptr;
}

int Engine::offer_secret(SSL* ssl, const EVP_MD* hash, const unsigned char** identity,
                         std::size_t* identity_bytes, SSL_SESSION** session) {
  const auto* const engine = static_cast<const Engine*>(SSL_get_app_data(ssl));
  *session = nullptr;
  *identity = nullptr;
  *identity_bytes = 0;
  if (!engine->secret_ || (hash != nullptr && EVP_MD_is_a(hash, "SHA384") != 1)) return 1;
  *session = engine->session_of_secret();
  if (*session == nullptr) return 0;
  *identity = reinterpret_cast<const unsigned char*>(engine->secret_->identity.data());
  *identity_bytes = engine->secret_->identity.size();
  return 1;
}

int Engine::find_secret(SSL* ssl, const unsigned char* identity, std::size_t identity_bytes,
                        SSL_SESSION** session) {
  const auto* const engine = static_cast<const Engine*>(SSL_get_app_data(ssl));
  *session = nullptr;
  if (!engine->secret_ || identity_bytes != engine->secret_->identity.size() ||
      std::memcmp(identity, engine->secret_->identity.data(), identity_bytes) != 0)
    return 1;  // without a secret in common the handshake then fails
  *session = engine->session_of_secret();
  return *session != nullptr ? 1 : 0;
}

// ---- who the peer is

std::string Engine::peer_tenant() const {
  const X509* const certificate = SSL_get0_peer_certificate(ssl_.get());
  if (certificate == nullptr || SSL_get_verify_result(ssl_.get()) != X509_V_OK) return "";
  const Names names = alternative_names(certificate);
  for (int i = 0; names != nullptr && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* const name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type != GEN_URI) continue;
    const std::string uri = text_of(name->d.uniformResourceIdentifier);
    if (uri.starts_with(kTenantUri)) return uri.substr(kTenantUri.size());
  }
  return common_name(certificate);
}

// ---- failures

/// The connection does not keep a certificate that it does not believe, and the user needs to know
/// which it was.
int Engine::note_refused(int is_fine, X509_STORE_CTX* store) {
  X509* const certificate = X509_STORE_CTX_get_current_cert(store);
  if (is_fine != 0 || certificate == nullptr) return is_fine;
  auto* const ssl =
      static_cast<SSL*>(X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx()));
  X509_up_ref(certificate);
  static_cast<Engine*>(SSL_get_app_data(ssl))->refused_ = {certificate, X509_free};
  return 0;
}

Error Engine::certificate_error(long verdict) const {
  const X509* const certificate = refused_.get();
  std::string what = X509_verify_cert_error_string(verdict);
  if (certificate == nullptr) return {ErrorCode::kPermission, "TLS: " + what};
  if (role_ == Role::kServer)
    return {ErrorCode::kPermission, format("TLS: the client's certificate (\"{}\") is refused: {}",
                                           common_name(certificate), what)};
  std::string advice = "check SLUICE_TLS_CA (--tls-ca)";
  if (verdict == X509_V_ERR_CERT_HAS_EXPIRED) {
    what = "it has expired on " + time_text(X509_get0_notAfter(certificate));
    advice = "the server's administrator makes a new one (sluicectl cert init)";
  } else if (verdict == X509_V_ERR_CERT_NOT_YET_VALID) {
    what = "it is not valid before " + time_text(X509_get0_notBefore(certificate));
    advice = "check this machine's clock";
  } else if (verdict == X509_V_ERR_HOSTNAME_MISMATCH || verdict == X509_V_ERR_IP_ADDRESS_MISMATCH) {
    what = format("it is not for \"{}\" but for {}", host_, hosts_of(certificate));
    advice = "use that name in SLUICE_SERVER, or make one with sluicectl cert init --host";
  } else if (secret_) {
    what = "only the session's key counts here";
    advice = "somebody is between this machine and the server";
  } else {
    what = format("no CA {} vouches for it ({})",
                  ca_file_.empty() ? "that this machine trusts" : "in " + ca_file_, what);
  }
  return {ErrorCode::kPermission,
          format("TLS: the server's certificate is refused: {}; {}", what, advice)};
}

Error Engine::handshake_error(int ssl_error) const {
  if (const long verdict = SSL_get_verify_result(ssl_.get()); verdict != X509_V_OK) {
    ERR_clear_error();
    return certificate_error(verdict);
  }
  const int reason = ERR_GET_REASON(ERR_peek_last_error());
  const bool is_tls = ERR_GET_LIB(ERR_peek_last_error()) == ERR_LIB_SSL;
  if (is_tls && (reason == SSL_R_WRONG_VERSION_NUMBER || reason == SSL_R_BAD_RECORD_TYPE ||
                 reason == SSL_R_HTTP_REQUEST)) {
    ERR_clear_error();
    return {ErrorCode::kProtocol, "TLS: the peer does not speak it"};
  }
  Error out = broken("the handshake failed", ssl_error);
  if (out.code == ErrorCode::kPeerClosed && role_ == Role::kClient && !secret_)
    out.message = "the server ended the connection; has it a certificate ([tls] in its file)?";
  out.message = "TLS: " + out.message;
  return out;
}

Error Engine::broken(const char* doing, int ssl_error) const {
  const unsigned long code = ERR_peek_last_error();
  ERR_clear_error();
  const int reason = ERR_GET_REASON(code);
  const bool is_tls = ssl_error == SSL_ERROR_SSL && ERR_GET_LIB(code) == ERR_LIB_SSL;
  if (is_at_end_ || (is_tls && reason == SSL_R_UNEXPECTED_EOF_WHILE_READING))
    return {ErrorCode::kPeerClosed,
            format("{}: the connection was cut without TLS's goodbye", doing)};
  if (ssl_error == SSL_ERROR_SYSCALL || !is_tls)
    return {ErrorCode::kPeerClosed,
            format("{}: {}", doing, std::strerror(socket_errno_ != 0 ? socket_errno_ : EPIPE))};
  if (reason == SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED ||
      reason == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE)
    return {ErrorCode::kPermission,
            role_ == Role::kClient
                ? "the server lets in clients with a certificate only; get one (sluicectl cert "
                  "issue) and set SLUICE_TLS_CERT and SLUICE_TLS_KEY"
                : "the client shows no certificate, and require_client_certificate is set"};
  const char* const text = ERR_reason_error_string(code);
  // Above 1000 these are alerts: the peer's words.
  const bool is_refusal = reason >= SSL_AD_REASON_OFFSET;
  return {is_refusal ? ErrorCode::kPermission : ErrorCode::kProtocol,
          format("{}: {}", doing, text != nullptr ? text : "unknown reason")};
}

}  // namespace sluice::transport::tls
