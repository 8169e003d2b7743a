// Connections that have not become a session yet, and frames of those that have.
#include "common/log.h"
#include "protocol/wire.h"
#include "server/broker/broker.h"
#include "server/broker/peer_text.h"
#include "server/broker/printable.h"
#include "server/broker/session.h"
#include "transport/stream/socket_ending.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace sluice::server {
namespace {
using namespace std::chrono_literals;
using Ending = transport::ByteStream::Ending;
constexpr auto kAcceptPause = 100ms;
constexpr std::size_t kUnauthenticatedMax = 64;
/// A life line carries pings, an observer's connection questions; whoever sends more on it is no
/// client of ours.
constexpr std::size_t kLifeLineFrameBytesMax = 1024;

wire::Hello printable_hello(wire::Hello hello) {
  for (std::string* text : {&hello.tenant, &hello.host, &hello.program}) *text = printable(*text);
  return hello;
}

}  // namespace

void Broker::accept_on(int listen_fd) {
  for (;;) {
    Fd fd(::accept4(listen_fd, nullptr, nullptr, SOCK_CLOEXEC));
    if (!fd.valid() && (errno == EMFILE || errno == ENFILE)) {
      SLUICE_LOG_ERROR("session", "out of file descriptors: no new connections for a moment");
      unwatch(listen_fd);
      return at(Clock::now() + kAcceptPause, [this, listen_fd] {
        if (phase_ == Phase::kServing)
          watch(listen_fd, [this, listen_fd] { accept_on(listen_fd); });
      });
    }
    if (!fd.valid()) return;
    transport::set_stream_options(fd.get());
    drop_oldest_stranger();
    auto client = std::make_shared<Client>();
    const int raw = fd.get();
    client->fd = std::move(fd);
    client->from = peer_text(raw);
    clients_[raw] = client;
    watch(raw, [this, client] { on_client(client); });
    at(Clock::now() + options_.times.hello, [this, weak = std::weak_ptr<Client>(client)] {
      const auto late = weak.lock();
      if (late != nullptr && late->is_stranger() && late->fd.valid()) close_client(late);
    });
    return;  // level-triggered: the next one comes with the next event
  }
}

/// Silent connections must not keep others out: beyond the limit the one that has waited longest
/// goes.
void Broker::drop_oldest_stranger() {
  std::shared_ptr<Client> oldest;
  std::size_t count = 0;
  for (const auto& [fd, client] : clients_) {
    if (!client->is_stranger()) continue;
    ++count;
    if (oldest == nullptr || client->since < oldest->since) oldest = client;
  }
  if (count < kUnauthenticatedMax) return;
  SLUICE_LOG_WARN("session", "{} connections have not said who they are; the oldest is closed",
                  count);
  close_client(oldest);
}

/// What is missing of the frame that is being received. Not a byte more is taken: what follows an
/// Attach belongs to the worker.
std::size_t Broker::wanted(const Client& client) {
  return client.received.size() < wire::kFramePrefixBytes
             ? wire::kFramePrefixBytes - client.received.size()
             : client.frame_bytes - client.received.size();
}

void Broker::on_client(const std::shared_ptr<Client>& client) {
  if (!client->is_kind_known && !learn_kind(client)) return;
  if (client->tls != nullptr) return on_encrypted(client);
  std::byte buffer[kReadBytes];
  const ssize_t got =
      ::recv(client->fd.get(), buffer, std::min(wanted(*client), kReadBytes), MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) {
    transport::SocketEnding ending;
    if (got < 0)
      ending.note_error(errno);
    else
      ending.note_end(client->fd.get(), false);
    return on_end(client, ending.get());
  }
  take_bytes(client, std::span(buffer).first(static_cast<std::size_t>(got)));
}

void Broker::take_bytes(const std::shared_ptr<Client>& client, std::span<const std::byte> bytes) {
  client->received.insert(client->received.end(), bytes.begin(), bytes.end());
  if (client->received.size() == wire::kFramePrefixBytes) {
    const auto total = wire::frame_bytes(client->received);
    if (!total || (!client->is_stranger() && *total > kLifeLineFrameBytesMax))
      return lose_client(client);  // garbage: not worth an answer
    client->frame_bytes = *total;
  }
  if (client->received.size() >= wire::kFramePrefixBytes &&
      client->received.size() == client->frame_bytes)
    on_frame(client);
}

void Broker::on_end(const std::shared_ptr<Client>& client, Ending ending) {
  const auto session = client->session;
  if (session == nullptr) return lose_client(client);
  if (ending == Ending::kSilence)
    SLUICE_LOG_WARN("session",
                    "session={} tenant={}: its client has been silent for the grace time",
                    session->id, session->tenant.name);
  const bool is_cut = ending == Ending::kReset && options_.config.resume_on_reset &&
                      (!session->is_encrypted || session->is_resumable);
  if (!is_cut) return lose_client(client);
  close_client(client);
  await_resumption(session);
}

void Broker::lose_client(const std::shared_ptr<Client>& client) {
  const auto session = client->session;
  close_client(client);
  if (session != nullptr) end_session(session);
}

void Broker::on_frame(const std::shared_ptr<Client>& client) {
  const auto frame = wire::decode_frame(client->received);
  client->received.clear();
  if (frame && client->session != nullptr) {
    if (const auto* ping = std::get_if<wire::Ping>(&*frame)) return on_ping(client, *ping);
  } else if (frame && client->observer) {
    if (const auto* query = std::get_if<wire::SliceQuery>(&*frame))
      return on_slice_query(client, *query);
  } else if (frame) {
    if (const auto* hello = std::get_if<wire::Hello>(&*frame))
      return on_hello(client, printable_hello(*hello));
    if (const auto* attach = std::get_if<wire::Attach>(&*frame)) return on_attach(client, *attach);
    if (const auto* resume = std::get_if<wire::Resume>(&*frame)) return on_resume(client, *resume);
  }
  lose_client(client);
}

void Broker::close_client(const std::shared_ptr<Client>& client) {
  if (!client->fd.valid()) return;
  if (client->tls != nullptr) client->tls->say_goodbye();
  release_client(client);
}

Fd Broker::release_client(const std::shared_ptr<Client>& client) {
  unwatch(client->fd.get());
  clients_.erase(client->fd.get());
  return std::move(client->fd);
}

bool Broker::send(Client& client, const wire::Frame& frame) {
  const auto bytes = wire::encode_frame(frame);
  // Frames fit a socket buffer; a client that does not read loses its connection, it does not hold
  // up the others.
  std::span<const std::byte> rest = bytes;
  while (client.tls != nullptr && !rest.empty()) {
    const auto sent = client.tls->send_some(rest);
    if (!sent || *sent == 0) return false;
    rest = rest.subspan(*sent);
  }
  if (client.tls != nullptr) return true;
  return ::send(client.fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT) ==
         static_cast<ssize_t>(bytes.size());
}

void Broker::refuse(const std::shared_ptr<Client>& client, wire::RefusalCode code,
                    const std::string& why) {
  SLUICE_LOG_WARN("session", "a client is refused: {} ({})", why, client->from);
  send(*client, wire::Refusal{code, why});
  close_client(client);
}

}  // namespace sluice::server
