// Both ends of a TLS connection over loopback, the server's on a thread.
#pragma once

#include "tests/tls/certificates.h"
#include "tests/transport/joining_thread.h"
#include "transport/tls/tls_stream.h"
#include "transport/transport.h"

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <utility>

namespace sluice::test {

namespace tls = transport::tls;
using transport::ByteStream;
using StreamResult = Result<std::unique_ptr<ByteStream>>;

inline transport::Deadline far() {
  return transport::Clock::now() + std::chrono::seconds(60);
}

inline std::array<Fd, 2> tcp_pair() {
  const Fd listener = Certificates::must(
      transport::listen_socket(Certificates::must(transport::parse_address("127.0.0.1:0")), 0));
  const auto bound = Certificates::must(transport::bound_address(
      Certificates::must(transport::parse_address("127.0.0.1:0")), listener.get()));
  Fd client = Certificates::must(transport::connect_socket(bound, std::chrono::seconds(30)));
  return {std::move(client), Certificates::must(transport::accept_socket(listener.get()))};
}

struct Ends {
  StreamResult client = fail(ErrorCode::kInternal, "not tried");
  StreamResult server = fail(ErrorCode::kInternal, "not tried");
};

using Opener = std::function<StreamResult(Fd)>;
inline Ends open_ends(const Opener& client, const Opener& server) {
  Ends ends;
  auto sockets = tcp_pair();
  const JoiningThread thread([&] { ends.server = server(std::move(sockets[1])); });
  ends.client = client(std::move(sockets[0]));
  // A peer whose certificate is refused after its own handshake is over learns so when it reads.
  if (ends.client) {
    const auto first = (*ends.client)->wait(ByteStream::For::kSend, far());
    static_cast<void>(first);
  }
  return ends;
}

inline Opener accepting(const tls::ServerSettings& settings) {
  return [settings](Fd socket) -> StreamResult {
    SLUICE_TRY(const tls::Context context, tls::make_server_context(settings));
    SLUICE_TRY(auto engine, tls::Engine::server(context, socket.get()));
    return tls::complete(std::move(socket), std::move(engine), far());
  };
}
inline Opener connecting(const tls::ClientSettings& settings) {
  return [settings](Fd socket) {
    return tls::linked_library().connect(std::move(socket), settings, far());
  };
}
inline Opener with_secret(tls::Role role, const tls::SessionSecret& secret) {
  return [role, secret](Fd socket) -> StreamResult {
    if (role == tls::Role::kClient)
      return tls::linked_library().connect_session(std::move(socket), secret, far());
    SLUICE_TRY(auto engine, tls::Engine::session(role, socket.get(), secret));
    return tls::complete(std::move(socket), std::move(engine), far());
  };
}
inline tls::SessionSecret secret_of(const std::string& identity, std::uint8_t fill) {
  tls::SessionSecret out{identity, {}};
  out.key.fill(fill);
  return out;
}

/// Waits for something: the bytes, or why there are none.
inline Result<std::string> receive(ByteStream& stream) {
  std::byte piece[4096];
  for (;;) {
    SLUICE_TRY(const std::size_t got, stream.receive_some(piece));
    if (got > 0) return std::string(reinterpret_cast<const char*>(piece), got);
    SLUICE_TRY(const bool is_ready, stream.wait(ByteStream::For::kReceive, far()));
    if (!is_ready) return fail(ErrorCode::kTimeout, "nothing came");
  }
}
inline Status send_text(ByteStream& stream, const std::string& text) {
  SLUICE_TRY(const std::size_t sent, stream.send_some(std::as_bytes(std::span(text))));
  if (sent == text.size()) return {};
  return fail(ErrorCode::kTimeout, "no room for a few bytes");
}

}  // namespace sluice::test
