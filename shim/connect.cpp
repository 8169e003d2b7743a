#include "shim/connect.h"

#include "common/log.h"
#include "protocol/stream_frames.h"
#include "shim/data_channel.h"
#include "shim/expect_frame.h"
#include "shim/hello.h"
#include "shim/tls_library.h"
#include "transport/tls/client_choice.h"

#include <cstdlib>

namespace sluice::shim {
namespace {

constexpr std::chrono::seconds kConnectTimeout{3};
/// A broker gives strangers no longer either.
constexpr std::chrono::seconds kTlsTimeout{5};

Result<Connection> handshake(const transport::Address& address, wire::Hello hello) {
  SLUICE_TRY(const TransportChoice choice,
             parse_transport(environment("SLUICE_TRANSPORT"), address));
  Connection connection;
  SLUICE_TRY(Fd socket, transport::connect_socket(address, kConnectTimeout));
  const auto tls = transport::tls::choice_from_environment();
  SLUICE_TRY(connection.life_line,
             transport::tls::open_control(std::move(socket), address, tls, !hello.token.empty(),
                                          tls_library, transport::Clock::now() + kTlsTimeout));
  const bool is_encrypted = connection.life_line->kind().encrypted;
  hello.tenant = transport::tls::tenant_to_say(hello.tenant, tls, is_encrypted);
  SLUICE_CHECK(wire::write_frame_to(*connection.life_line, hello));
  SLUICE_TRY(connection.welcome, expect_frame<wire::Welcome>(*connection.life_line));
  if (!hello.limits.empty() && (connection.welcome.feature_bits & wire::kFeatureLimits) == 0)
    SLUICE_LOG_WARN("shim",
                    "the server is older than this client and lowers no limits for it: the program "
                    "has all of its tenant's slice");
  if (address.kind == transport::Address::Kind::kTcp) {
    SLUICE_TRY(const ResumeAfter after,
               parse_resume(std::getenv("SLUICE_RESUME"), connection.welcome, is_encrypted));
    if (after != ResumeAfter::kNothing) {
      SLUICE_TRY(connection.resumable,
                 resumable_of(connection.life_line->fd(), connection.welcome, after));
      if (is_encrypted) connection.resumable->encryption = encryption_of(tls, address.host);
    }
  }
  Resumable* const resumable = connection.resumable ? &*connection.resumable : nullptr;
  SLUICE_TRY(connection.channel,
             open_data_channel(address, connection.welcome, choice, is_encrypted, resumable));
  // Over UCX nothing is resumed.
  if (resumable != nullptr && resumable->data.empty()) connection.resumable.reset();
  return connection;
}

Connector& test_connector() {
  static Connector* const connector = new Connector;
  return *connector;
}

}  // namespace

Result<Connection> connect_from_environment() {
  const std::string server = environment("SLUICE_SERVER");
  if (server.empty()) return fail(no_server_named());
  const auto doing = [&](const Error& error) {
    return fail(error.with_context("server " + server));
  };
  const auto address = transport::parse_address(server);
  if (!address) return doing(address.error());
  auto hello = hello_from_environment();
  if (!hello) return doing(hello.error());
  hello->feature_bits = wire::kFeatureHeartbeat | wire::kFeatureEnding | wire::kFeatureResume;
  auto connection = handshake(*address, *hello);
  if (!connection) return doing(connection.error());
  connection->server = address->text();
  return connection;
}

void set_connector_for_test(Connector connector) {
  test_connector() = std::move(connector);
}

Result<Connection> connect() {
  return test_connector() ? test_connector()() : connect_from_environment();
}

}  // namespace sluice::shim
