// The loop, listening, and connections that have not become a session yet.
#include "server/broker/broker.h"

#include "common/format.h"
#include "common/log.h"
#include "protocol/opcodes.h"
#include "protocol/wire.h"
#include "server/broker/session.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace sluice::server {
namespace {
using namespace std::chrono_literals;
constexpr auto kHelloTime = 5s;
constexpr auto kAcceptPause = 100ms;
constexpr std::size_t kUnauthenticatedMax = 64;
constexpr std::size_t kReadBytes = 64 * 1024;
/// What a client says about itself goes into logs and messages: one line each.
wire::Hello printable(wire::Hello hello) {
  for (std::string* text : {&hello.tenant, &hello.host, &hello.program})
    std::replace_if(
        text->begin(), text->end(),
        [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }, '?');
  return hello;
}

}  // namespace

Broker::Broker(BrokerOptions options) : options_(std::move(options)) {
  epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
  signals_.reset(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
}

Broker::~Broker() {
  for (const auto& [id, session] : sessions_) ::kill(session->worker.pid, SIGKILL);
  for (const WorkerProcess& worker : idle_) ::kill(worker.pid, SIGKILL);
  for (const Listener& listener : listeners_)
    if (listener.address.kind == transport::Address::Kind::kUnix)
      ::unlink(listener.address.path.c_str());
}

void Broker::watch(int fd, std::function<void()> on_readable) {
  const std::uint32_t generation = next_generation_++;
  handlers_[fd] = {generation, std::move(on_readable)};
  epoll_event event{};
  event.events = EPOLLIN | EPOLLRDHUP;
  event.data.u64 = std::uint64_t{generation} << 32 | static_cast<std::uint32_t>(fd);
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0)
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event);
}

void Broker::unwatch(int fd) {
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  handlers_.erase(fd);
}

void Broker::at(Clock::time_point when, std::function<void()> what) {
  timers_.emplace(when, std::move(what));
}

int Broker::run_timers() {
  while (!timers_.empty() && timers_.begin()->first <= Clock::now()) {
    const auto what = std::move(timers_.begin()->second);
    timers_.erase(timers_.begin());
    what();
  }
  if (timers_.empty()) return -1;
  return static_cast<int>(
      std::chrono::ceil<std::chrono::milliseconds>(timers_.begin()->first - Clock::now()).count());
}

Status Broker::open() {
  for (const transport::Address& wanted : options_.config.listen) {
    SLUICE_TRY(Fd fd, transport::listen_socket(wanted, 0600));
    SLUICE_TRY(transport::Address bound, transport::bound_address(wanted, fd.get()));
    const int raw = fd.get();
    ::fcntl(raw, F_SETFL,
            ::fcntl(raw, F_GETFL) | O_NONBLOCK);  // a client may be gone before it is accepted
    listeners_.push_back({std::move(bound), std::move(fd)});
    watch(raw, [this, raw] { accept_on(raw); });
  }
  prestart();
  return {};
}

std::vector<std::string> Broker::addresses() const {
  std::vector<std::string> out;
  for (const Listener& listener : listeners_) out.push_back(listener.address.text());
  return out;
}

Status Broker::run() {
  watch(signals_.get(), [this] { is_stopping_ = true; });
  while (!is_stopping_) {
    epoll_event events[64];
    const int timeout = run_timers();
    const int count = ::epoll_wait(epoll_.get(), events, 64, timeout);
    if (count < 0 && errno != EINTR) return fail(system_error("waiting for events", errno));
    for (int i = 0; i < count; ++i) {
      const auto found = handlers_.find(static_cast<int>(events[i].data.u64 & 0xFFFFFFFFu));
      if (found == handlers_.end() || found->second.generation != events[i].data.u64 >> 32)
        continue;
      const auto handler = found->second.on_readable;  // a copy: it may unwatch itself
      handler();
    }
  }
  SLUICE_LOG_INFO("session", "stopping: {} sessions end", sessions_.size());
  for (const auto& [id, session] : sessions_) report(*session);
  return {};
}

void Broker::accept_on(int listen_fd) {
  for (;;) {
    Fd fd(::accept4(listen_fd, nullptr, nullptr, SOCK_CLOEXEC));
    if (!fd.valid() && (errno == EMFILE || errno == ENFILE)) {
      SLUICE_LOG_ERROR("session", "out of file descriptors: no new connections for a moment");
      unwatch(listen_fd);
      return at(Clock::now() + kAcceptPause, [this, listen_fd] {
        watch(listen_fd, [this, listen_fd] { accept_on(listen_fd); });
      });
    }
    if (!fd.valid()) return;
    transport::set_stream_options(fd.get());
    drop_oldest_stranger();
    auto client = std::make_shared<Client>();
    const int raw = fd.get();
    client->fd = std::move(fd);
    clients_[raw] = client;
    watch(raw, [this, client] { on_client(client); });
    at(Clock::now() + kHelloTime, [this, weak = std::weak_ptr<Client>(client)] {
      const auto late = weak.lock();
      if (late != nullptr && late->session == nullptr && late->fd.valid()) close_client(late);
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
    if (client->session != nullptr) continue;
    ++count;
    if (oldest == nullptr || client->since < oldest->since) oldest = client;
  }
  if (count < kUnauthenticatedMax) return;
  SLUICE_LOG_WARN("session", "{} connections have not said who they are; the oldest is closed",
                  count);
  close_client(oldest);
}

void Broker::close_client(const std::shared_ptr<Client>& client) {
  if (!client->fd.valid()) return;
  unwatch(client->fd.get());
  clients_.erase(client->fd.get());
  client->fd.reset();
}

bool Broker::send(Client& client, const wire::Frame& frame) {
  const auto bytes = wire::encode_frame(frame);
  // Frames fit a socket buffer; a client that does not read loses its connection, it does not hold
  // up the others.
  return ::send(client.fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT) ==
         static_cast<ssize_t>(bytes.size());
}

void Broker::refuse(const std::shared_ptr<Client>& client, wire::RefusalCode code,
                    const std::string& why) {
  SLUICE_LOG_WARN("session", "a client is refused: {}", why);
  send(*client, wire::Refusal{code, why});
  close_client(client);
}

void Broker::on_client(const std::shared_ptr<Client>& client) {
  std::byte buffer[kReadBytes];
  // Only up to the end of the first frame: what follows an Attach belongs to the worker.
  const std::size_t wanted = client->received.size() < wire::kFramePrefixBytes
                                 ? wire::kFramePrefixBytes - client->received.size()
                                 : client->frame_bytes - client->received.size();
  const ssize_t got =
      ::recv(client->fd.get(), buffer,
             client->session != nullptr ? kReadBytes : std::min(wanted, kReadBytes), MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) {
    const auto session = client->session;
    close_client(client);
    if (session != nullptr) end_session(session);
    return;
  }
  if (client->session != nullptr) return;  // the life line carries nothing yet
  client->received.insert(client->received.end(), buffer, buffer + got);
  if (client->received.size() == wire::kFramePrefixBytes) {
    const auto total = wire::frame_bytes(client->received);
    if (!total) return close_client(client);  // garbage: not worth an answer
    client->frame_bytes = *total;
  }
  if (client->received.size() < wire::kFramePrefixBytes ||
      client->received.size() < client->frame_bytes)
    return;
  const auto frame = wire::decode_frame(client->received);
  client->received.clear();
  if (!frame) return close_client(client);
  if (const auto* hello = std::get_if<wire::Hello>(&*frame))
    return on_hello(client, printable(*hello));
  if (const auto* attach = std::get_if<wire::Attach>(&*frame)) return on_attach(client, *attach);
  close_client(client);
}

void Broker::on_hello(const std::shared_ptr<Client>& client, const wire::Hello& hello) {
  using Code = wire::RefusalCode;
  if (hello.protocol_version != wire::kProtocolVersion ||
      hello.opcode_table_hash != wire::kOpcodeTableHash) {
    const char* which = hello.protocol_version > wire::kProtocolVersion ? "update the server"
                        : hello.protocol_version < wire::kProtocolVersion
                            ? "update the client's Sluice libraries"
                            : "install the same release of Sluice on both sides";
    return refuse(client, Code::kVersion,
                  format("version mismatch: the client speaks protocol {} (table {:x}), the server "
                         "{} (table {:x}); {}",
                         hello.protocol_version, hello.opcode_table_hash, wire::kProtocolVersion,
                         wire::kOpcodeTableHash, which));
  }
  const auto& tenants = options_.config.tenants;
  const auto tenant = std::find_if(tenants.begin(), tenants.end(),
                                   [&](const config::Tenant& t) { return t.name == hello.tenant; });
  const config::TokenHash hash =
      config::hash_token(hello.token);  // also for unknown tenants: the same work
  if (tenant == tenants.end())
    return refuse(client, Code::kUnknownTenant,
                  format("unknown tenant \"{}\": check SLUICE_TENANT or --tenant, or add the "
                         "tenant to the server's configuration",
                         hello.tenant));
  if (!config::is_same_hash(hash, tenant->token_hash))
    return refuse(client, Code::kWrongToken,
                  format("wrong token for tenant \"{}\": check SLUICE_TOKEN_FILE or --token-file",
                         hello.tenant));
  const auto running = std::count_if(sessions_.begin(), sessions_.end(), [&](const auto& s) {
    return s.second->tenant.name == tenant->name;
  });
  if (static_cast<std::uint32_t>(running) >= tenant->max_sessions)
    return refuse(
        client, Code::kTenantFull,
        format(
            "tenant \"{}\" has {} sessions, which is its limit; end one or raise its max_sessions",
            tenant->name, running));
  if (sessions_.size() >= options_.config.max_sessions)
    return refuse(client, Code::kServer,
                  format("the server has {} sessions, which is its limit; try later or raise "
                         "max_sessions in [server]",
                         sessions_.size()));
  start_session(client, *tenant, hello);
}

void Broker::on_attach(const std::shared_ptr<Client>& client, const wire::Attach& attach) {
  for (const auto& [id, session] : sessions_) {
    std::uint8_t difference = 0;  // in constant time
    for (std::size_t i = 0; i < attach.session_key.size(); ++i)
      difference |= static_cast<std::uint8_t>(attach.session_key[i] ^ session->key[i]);
    if (difference != 0 || session->is_attached || !session->is_welcome) continue;
    session->is_attached = true;
    if (!send(*client, wire::Attached{}) ||
        !link::send_message(session->worker.link.get(), link::AttachData{}, client->fd.get())) {
      close_client(client);
      return end_session(session);
    }
    return close_client(client);  // the worker has its own descriptor
  }
  SLUICE_LOG_WARN("session", "a data connection with an unknown session key is closed");
  close_client(client);
}

}  // namespace sluice::server
