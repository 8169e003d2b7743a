#include "server/config/tls_section.h"

#include "common/format.h"
#include "transport/tls/context.h"

namespace sluice::config {
namespace {

Status check_tls(const transport::tls::ServerSettings& tls) {
  if (tls.certificate_file.empty() != tls.key_file.empty())
    return fail(ErrorCode::kInvalidArgument,
                "[tls]: certificate and key go together (sluicectl cert init makes both)");
  if (tls.certificate_file.empty() && !tls.client_ca_file.empty())
    return fail(ErrorCode::kInvalidArgument,
                "client_ca in [tls]: without certificate and key there is no TLS");
  if (tls.require_client_certificate && tls.client_ca_file.empty())
    return fail(ErrorCode::kInvalidArgument,
                "require_client_certificate in [tls]: client_ca must say whose certificates count");
  if (tls.certificate_file.empty()) return {};
  const auto usable = transport::tls::make_server_context(tls);
  if (!usable) return fail(usable.error().with_context("[tls]"));
  return {};
}

}  // namespace

Status read_tls(const toml::table& table, const std::string& path,
                transport::tls::ServerSettings* out) {
  Section s(table, "[tls]", path);
  SLUICE_CHECK(s.read("certificate", &out->certificate_file));
  SLUICE_CHECK(s.read("key", &out->key_file));
  SLUICE_CHECK(s.read("client_ca", &out->client_ca_file));
  SLUICE_CHECK(s.read("require_client_certificate", &out->require_client_certificate));
  return s.finish();
}

Status check_encryption(const Config& config) {
  SLUICE_CHECK(check_tls(config.tls));
  if (!config.tls.certificate_file.empty()) return {};
  for (const transport::Address& address : config.listen) {
    if (address.kind == transport::Address::Kind::kUnix) continue;
    if (config.require_encryption)
      return fail(ErrorCode::kInvalidArgument,
                  format("require_encryption in [server]: nobody could use listen address {} "
                         "without certificate and key in [tls] (sluicectl cert init makes them)",
                         address.text()));
    if (!transport::is_loopback(address) && !config.allow_plaintext_network)
      return fail(ErrorCode::kInvalidArgument,
                  format("listen address {}: tokens and data would cross the network unencrypted; "
                         "give the server a certificate ([tls]; sluicectl cert init makes one), "
                         "listen on loopback, or set "
                         "allow_plaintext_network = true in [server] if the network is trusted",
                         address.text()));
  }
  return {};
}

}  // namespace sluice::config
