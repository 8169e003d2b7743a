// The first connection of a session after its Welcome: heartbeats, silence, and what ends a session
// from our side.
#include "common/duration.h"
#include "common/format.h"
#include "common/log.h"
#include "server/broker/broker.h"
#include "server/broker/session.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <limits>

namespace sluice::server {
namespace {

using std::chrono::milliseconds;
/// Probes or retransmissions in a row without an answer that make a client suspect.
constexpr int kUnansweredMax = 2;
/// Workers report every second.
constexpr auto kWorkerSilence = std::chrono::seconds(5);

milliseconds since(std::chrono::steady_clock::time_point when) {
  return std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now() - when);
}

bool is_unanswered(int fd) {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return false;  // a UNIX socket
  return info.tcpi_probes >= kUnansweredMax || info.tcpi_retransmits >= kUnansweredMax;
}

}  // namespace

/// The kernel asks a silent client's kernel whether it is there, which also answers for a process
/// that a debugger has stopped. Without an answer for the grace time the connection breaks.
void Broker::watch_silence(int fd) const {
  const auto grace_ms = static_cast<int>(options_.config.grace.count());
  const int idle_s = std::clamp(grace_ms / 2000, 1, 5), interval_s = 1;
  const int count = std::max(1, grace_ms / 1000 - idle_s);
  // On a UNIX socket these fail, which is what is wanted.
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof interval_s);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
  // The limit also for what we have sent; with it the number of probes no longer matters.
  ::setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &grace_ms, sizeof grace_ms);
}

void Broker::on_ping(const std::shared_ptr<Client>& client, const wire::Ping& ping) {
  const auto session = client->session;
  const auto silent_ms = std::clamp<std::int64_t>(since(session->last_report).count(), 0,
                                                  std::numeric_limits<std::uint32_t>::max());
  if (send(*client, wire::Pong{ping.number, static_cast<std::uint32_t>(silent_ms)})) return;
  // It asks and does not read: part of a frame may have gone out, and nothing after it is a frame.
  close_client(client);
  end_session(session);
}

void Broker::tell(Session& session, const wire::Ending& ending) {
  const auto client = session.life_line.lock();
  if (client == nullptr || !client->fd.valid() || !session.is_welcome) return;
  if ((session.hello.feature_bits & wire::kFeatureEnding) != 0) send(*client, ending);
}

void Broker::watch_sessions() {
  const auto sessions = sessions_;  // a copy: ending one may remove it
  for (const auto& [id, session] : sessions) watch_session(session);
  note_usage();
  meter_time();
  ledger_.audit();
  watch_ledger();
  at(Clock::now() + options_.times.watch, [this] { watch_sessions(); });
}

void Broker::watch_session(const std::shared_ptr<Session>& session) {
  if (!session->is_welcome || session->is_ending) return;
  const config::Tenant& tenant = tenant_of(*session);
  if (tenant.max_duration.count() > 0 && since(session->started) >= tenant.max_duration)
    return end_session(session, wire::EndingCode::kDuration,
                       format("it has lasted {}, which is the max_duration of tenant \"{}\"",
                              duration_text(tenant.max_duration), tenant.name));
  if (tenant.idle_timeout.count() > 0 && since(session->last_call) >= tenant.idle_timeout)
    return end_session(
        session, wire::EndingCode::kIdle,
        format("no CUDA call came for {}, which is the idle_timeout of tenant \"{}\"",
               duration_text(tenant.idle_timeout), tenant.name));
  const auto client = session->life_line.lock();
  const bool is_suspect =
      client == nullptr || !client->fd.valid() || is_unanswered(client->fd.get());
  if (is_suspect && !session->is_suspect)
    SLUICE_LOG_WARN("session", "session={} tenant={}: its client {}:{} does not answer; it has {}",
                    session->id, session->tenant.name, session->hello.host, session->hello.pid,
                    duration_text(options_.config.grace));
  if (!is_suspect && session->is_suspect)
    SLUICE_LOG_INFO("session", "session={} tenant={}: its client is back", session->id,
                    session->tenant.name);
  session->is_suspect = is_suspect;
  if (session->is_attached && !session->is_warned && since(session->last_report) > kWorkerSilence) {
    session->is_warned = true;
    SLUICE_LOG_WARN("session", "session={} tenant={}: its worker {} has been silent for {} ms",
                    session->id, session->tenant.name, session->worker.pid,
                    since(session->last_report).count());
  }
}

}  // namespace sluice::server
