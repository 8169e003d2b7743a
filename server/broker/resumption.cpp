// A session's connections that are cut and replaced: the life line here, the data connection by the
// worker. Whoever presents the key is the client; what it cannot present is a session of an earlier
// server process.
#include "common/duration.h"
#include "common/format.h"
#include "common/log.h"
#include "server/broker/broker.h"
#include "server/broker/session.h"

#include <sys/socket.h>

namespace sluice::server {

namespace {

/// Of one session, until its worker has taken the one before; beyond it the oldest goes.
constexpr std::size_t kCandidatesMax = 16;

}  // namespace

std::string Broker::resume_refusal(const Client& client, const wire::Resume& resume) const {
  if (resume.server_instance != instance_)
    return "the server was restarted; the program's GPU state is lost";
  const auto found = sessions_.find(resume.session_id);
  if (found == sessions_.end() || found->second->is_ending)
    return format("the session is over; a client that falls silent keeps it for {}",
                  duration_text(options_.config.grace));
  const Session& session = *found->second;
  const bool is_encrypted = client.tls != nullptr;
  // A key that crossed the network in the clear is no proof; whether it was the right one, nobody
  // is told.
  if (session.is_encrypted && !is_encrypted)
    return "an encrypted session is resumed over an encrypted connection only";
  if (!session.is_encrypted && is_encrypted) return "this session is not encrypted";
  if (!config::is_same_hash(session.key, resume.session_key) || !session.is_welcome)
    return "this is not the session's key";
  const std::string certified = certified_tenant(client);
  if (!certified.empty() && certified != session.tenant.name)
    return format("the client's certificate belongs to tenant \"{}\", the session does not",
                  certified);
  if (is_encrypted && resume.line == wire::Resume::Line::kData)
    return "TLS with the server's certificate is for the life line";
  if (is_encrypted && !session.is_resumable) return "the session cannot be resumed";
  if (resume.line == wire::Resume::Line::kData &&
      (!session.is_resumable || resume.lane > session.lane_count))
    return "the session's data connection cannot be resumed";
  return {};
}

void Broker::on_resume(const std::shared_ptr<Client>& client, const wire::Resume& resume) {
  if (resume.is_encrypted != 0) return on_encrypted_resume(client, resume);
  if (const std::string why = resume_refusal(*client, resume); !why.empty())
    return refuse(client, wire::RefusalCode::kUnknownSession, why);
  const auto session = sessions_.at(resume.session_id);
  const bool is_life_line = resume.line == wire::Resume::Line::kLifeLine;
  std::uint64_t& newest =
      is_life_line ? session->life_line_attempt : session->data_attempts[resume.lane];
  if (resume.attempt <= newest) return close_client(client);  // a newer one has overtaken it
  newest = resume.attempt;
  if (is_life_line) return resume_life_line(client, session);
  const int no = 0;
  ::setsockopt(client->fd.get(), SOL_SOCKET, SO_KEEPALIVE, &no, sizeof no);  // as on_attach()
  // If the worker is gone, its exit is seen next.
  if (send(*client, wire::Resumed{}))
    static_cast<void>(link::send_message(session->worker.link.get(),
                                         link::ResumeData{.lane = resume.lane}, client->fd.get()));
  close_client(client);
}

/// Whoever is there has named a session and proved nothing. The worker does the rest, and whatever
/// fails is this connection's loss.
void Broker::on_encrypted_resume(const std::shared_ptr<Client>& client,
                                 const wire::Resume& resume) {
  if (client->tls != nullptr) return close_client(client);  // TLS goes to the broker, no further
  const auto found = sessions_.find(resume.session_id);
  const auto session = found != sessions_.end() ? found->second : nullptr;
  const bool is_wanted = session != nullptr && resume.server_instance == instance_ &&
                         session->is_encrypted && session->is_attached && session->is_resumable &&
                         !session->is_ending;
  if (!is_wanted)
    return refuse(client, wire::RefusalCode::kUnknownSession, "no such session can be resumed");
  const int no = 0;
  ::setsockopt(client->fd.get(), SOL_SOCKET, SO_KEEPALIVE, &no, sizeof no);  // as on_attach()
  if (!send(*client, wire::Resumed{})) return close_client(client);
  if (session->candidates.size() == kCandidatesMax) session->candidates.pop_front();
  session->candidates.push_back({release_client(client), resume.lane});
  pass_candidate(*session);
}

void Broker::pass_candidate(Session& session) {
  if (session.is_candidate_under_way || session.candidates.empty()) return;
  const Session::Candidate next = std::move(session.candidates.front());
  session.candidates.pop_front();
  // If the worker is gone, its exit is seen next.
  session.is_candidate_under_way =
      link::send_message(session.worker.link.get(),
                         link::ResumeData{.is_encrypted = true, .lane = next.lane},
                         next.socket.get())
          .has_value();
}

void Broker::resume_life_line(const std::shared_ptr<Client>& client,
                              const std::shared_ptr<Session>& session) {
  if (const auto old = session->life_line.lock()) {
    old->session = nullptr;  // so that its end is nobody's
    close_client(old);
  }
  client->session = session;
  session->life_line = client;
  watch_silence(client->fd.get());
  SLUICE_LOG_INFO("session", "session={} tenant={}: its client has a new connection", session->id,
                  session->tenant.name);
  if (send(*client, wire::Resumed{})) return;
  close_client(client);
  await_resumption(session);
}

/// Without a life line, for the grace time.
void Broker::await_resumption(const std::shared_ptr<Session>& session) {
  if (session->is_ending) return;
  SLUICE_LOG_WARN("session", "session={} tenant={}: its connection broke; its client has {}",
                  session->id, session->tenant.name, duration_text(options_.config.grace));
  session->is_suspect = true;
  session->life_line.reset();
  const std::uint64_t attempt = session->life_line_attempt;
  at(Clock::now() + options_.config.grace, [this, attempt, weak = std::weak_ptr(session)] {
    const auto late = weak.lock();
    if (late == nullptr || late->life_line_attempt != attempt) return;
    SLUICE_LOG_WARN("session", "session={} tenant={}: its client has not come back", late->id,
                    late->tenant.name);
    end_session(late);
  });
}

}  // namespace sluice::server
