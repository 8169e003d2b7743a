// What of the broker's work TLS changes: connections that begin with its handshake, who may come
// without it, and data connections whose key only the worker checks.
#include "common/format.h"
#include "common/log.h"
#include "server/broker/broker.h"
#include "server/broker/printable.h"
#include "server/broker/session.h"
#include "transport/transport.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

namespace sluice::server {
namespace {

constexpr std::byte kTlsHandshake{0x16};  ///< the first byte of TLS; a frame begins with 'S'
/// Of frames of one client before others have their turn.
constexpr int kPiecesMax = 32;

}  // namespace

Result<transport::tls::Context> Broker::tls_context_of(const config::Config& config) {
  if (config.tls.certificate_file.empty()) return nullptr;
  return transport::tls::make_server_context(config.tls);
}

/// Of one listener both kinds come; the first byte tells. False: it has not come, or nothing will.
bool Broker::learn_kind(const std::shared_ptr<Client>& client) {
  std::byte first{};
  const ssize_t got = ::recv(client->fd.get(), &first, 1, MSG_PEEK | MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  client->is_kind_known = true;  // also of one that is gone: what follows sees that
  if (got != 1 || first != kTlsHandshake) return true;
  if (tls_ == nullptr) {
    SLUICE_LOG_WARN("session",
                    "{} wants TLS, for which this server has no certificate ([tls] in its file)",
                    client->from);
    close_client(client);
    return false;
  }
  auto engine = transport::tls::Engine::server(tls_, client->fd.get());
  if (!engine) {
    SLUICE_LOG_ERROR("session", "{}", engine.error().message);
    close_client(client);
    return false;
  }
  client->tls = std::move(*engine);
  return true;
}

/// True: encrypted bytes can flow.
bool Broker::advance_handshake(const std::shared_ptr<Client>& client) {
  if (client->is_tls_ready) return true;
  const auto done = client->tls->handshake();
  if (done && *done) return client->is_tls_ready = true;
  // A handshake fits a socket buffer; who leaves it full does not read.
  if (!done || client->tls->has_unsent()) {
    SLUICE_LOG_WARN("session", "{} is refused: {}", client->from,
                    done ? "it does not read TLS's answer" : done.error().message);
    close_client(client);
  }
  return false;
}

void Broker::on_encrypted(const std::shared_ptr<Client>& client) {
  if (!advance_handshake(client)) return;
  std::byte buffer[kReadBytes];
  // All of it: what has been decrypted, the socket does not tell of again.
  for (int i = 0; i < kPiecesMax; ++i) {
    const auto got =
        client->tls->receive_some(std::span(buffer).first(std::min(wanted(*client), kReadBytes)));
    if (!got) return on_end(client, client->tls->ending());
    if (*got == 0) return;
    take_bytes(client, std::span(buffer).first(*got));
    if (!client->fd.valid()) return;
  }
  post([this, client] {
    if (client->fd.valid()) on_encrypted(client);
  });
}

/// Why this client may not go on without encryption; empty: it may.
std::string Broker::plain_refusal(const Client& client) const {
  using transport::Reach;
  if (client.tls != nullptr) return "";
  const Reach reach = transport::reach_of(client.fd.get());
  if (reach == Reach::kUnix) return "";
  const bool is_near_or_trusted =
      reach == Reach::kLoopback || options_.config.allow_plaintext_network;
  if (is_near_or_trusted && !options_.config.require_encryption) return "";
  return "this server takes encrypted connections only: set SLUICE_TLS=on and SLUICE_TLS_CA to "
         "the file with its CA (sluice run --tls on --tls-ca FILE)";
}

std::string Broker::certified_tenant(const Client& client) {
  return client.tls != nullptr ? printable(client.tls->peer_tenant()) : "";
}

link::AttachData Broker::encrypted_data(const wire::Attach& attach) const {
  return {.is_encrypted = true,
          .is_resumable = attach.is_resumable != 0,
          .survives_reset = options_.config.resume_on_reset,
          .lane = attach.lane,
          .lane_count = attach.lane_count};
}

void Broker::on_encrypted_attach(const std::shared_ptr<Client>& client,
                                 const wire::Attach& attach) {
  const auto found = sessions_.find(attach.session_id);
  const auto session = found != sessions_.end() ? found->second : nullptr;
  const bool is_wanted = session != nullptr && session->is_encrypted && session->is_welcome &&
                         !session->is_attached && !session->is_ending;
  if (!is_wanted) {
    SLUICE_LOG_WARN("session", "a data connection from {} for no waiting session is closed",
                    client->from);
    return close_client(client);
  }
  const int no = 0;  // as of any data connection: the life line alone decides
  ::setsockopt(client->fd.get(), SOL_SOCKET, SO_KEEPALIVE, &no, sizeof no);
  // Whatever fails here is this connection's loss: it need not be the client's.
  if (send(*client, wire::Attached{})) {
    const auto sent =
        link::send_message(session->worker.link.get(), encrypted_data(attach), client->fd.get());
    if (!sent)
      SLUICE_LOG_WARN("session", "session={}: a data connection is closed: {}", session->id,
                      sent.error().message);
  }
  close_client(client);
}

}  // namespace sluice::server
