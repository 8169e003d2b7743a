// The workers' questions to the ledger. Before a tenant is refused memory, its other sessions are
// asked to give back what they keep and do not use.
#include "common/format.h"
#include "common/log.h"
#include "server/broker/broker.h"
#include "server/broker/session.h"
#include "server/config/size.h"

#include <signal.h>

#include <algorithm>
#include <string>
#include <vector>

namespace sluice::server {
namespace {
using namespace std::chrono_literals;
/// A client answers at once while it talks to its worker, and gives back by itself when it has not
/// for 100 ms.
constexpr auto kRecallTime = 150ms;

std::uint64_t rest(std::uint64_t limit, std::uint64_t used) {
  return used < limit ? limit - used : 0;
}

}  // namespace

void Broker::send_answer(Session& session, std::uint32_t device, bool is_granted) {
  const std::string& tenant = session.tenant.name;
  // What the others keep they give back when it is needed; what the session keeps its client knows.
  const std::uint64_t used_bytes =
      ledger_.used_bytes(tenant, device) -
      (ledger_.spare_bytes(tenant, device) - ledger_.spare_bytes(session.id, device));
  const std::uint64_t limit = limit_of(session, device);
  const std::uint64_t own = session.limits.lowered(limit, device);
  const auto sent = link::send_message(
      session.worker.link.get(),
      link::Answer{is_granted,
                   own - std::min(rest(limit, used_bytes),
                                  rest(own, ledger_.held_bytes(session.id, device))),
                   own});
  // A worker that asks and does not read must not hold up the others.
  if (sent) return;
  SLUICE_LOG_ERROR("session", "session={} tenant={}: its worker is killed: {}", session.id,
                   session.tenant.name, sent.error().message);
  ::kill(session.worker.pid, SIGKILL);
}

/// Counted; and said, now and then: a program may ask again and again.
void Broker::deny(Session& session, const link::Charge& asked) {
  constexpr auto kLogInterval = 10s;
  constexpr std::size_t kHoldersMax = 8;
  Denials& denials = denials_[session.tenant.name];
  ++denials.count;
  const auto now = Clock::now();
  if (denials.count > 1 && now - denials.logged < kLogInterval) return;
  denials.logged = now;
  std::string holders;
  std::size_t others = 0;
  for (const auto& [id, other] : sessions_) {
    const std::uint64_t held = ledger_.held_bytes(id, asked.device);
    if (other->tenant.name != session.tenant.name || held == 0) continue;
    if (++others <= kHoldersMax)
      holders +=
          format("{}session {} ({}:{} {}) {}", holders.empty() ? "" : ", ", id, other->hello.host,
                 other->hello.pid, other->hello.program, config::size_text(held));
  }
  const std::uint64_t own = session.limits.lowered(limit_of(session, asked.device), asked.device);
  if (others > kHoldersMax) holders += format(" and {} more", others - kHoldersMax);
  SLUICE_LOG_WARN(
      "quota",
      "session={} tenant={} device={}: {} more are refused: {} of {} are in use{}{}{}. "
      "End a session (sluicectl kill) or raise the limit (sluicectl tenant set {} "
      "--memory); {} refusals so far",
      session.id, session.tenant.name, asked.device, config::size_text(asked.bytes),
      config::size_text(ledger_.used_bytes(session.tenant.name, asked.device)),
      config::size_text(limit_of(session, asked.device)), holders.empty() ? "" : ": ", holders,
      own < limit_of(session, asked.device)
          ? format("; the program itself asked for no more than {}", config::size_text(own))
          : "",
      session.tenant.name, denials.count);
}

/// The session itself has asked for no more, whatever its tenant has left.
bool Broker::is_beyond_wish(const Session& session, const link::Charge& charge) const {
  const std::uint64_t own = session.limits.lowered(limit_of(session, charge.device), charge.device);
  return charge.bytes > rest(own, ledger_.held_bytes(session.id, charge.device));
}

bool Broker::charge(Session& session, const link::Charge& charge) {
  if (is_beyond_wish(session, charge)) return false;
  const bool is_granted = ledger_.charge(session.id, session.tenant.name, charge.device,
                                         charge.bytes, limit_of(session, charge.device));
  if (is_granted) meter_tenant(session.tenant.name);
  return is_granted;
}

void Broker::on_memory(const std::shared_ptr<Session>& session, const link::Message& message) {
  if (const auto* refund = std::get_if<link::Refund>(&message)) {
    ledger_.refund(session->id, session->tenant.name, refund->device, refund->bytes);
    meter_tenant(session->tenant.name);
    retry_memory(session->tenant.name);
  } else if (const auto* spare = std::get_if<link::Spare>(&message)) {
    ledger_.note_spare(session->id, session->tenant.name, spare->device, spare->bytes);
  } else if (std::holds_alternative<link::RecallDone>(message)) {
    on_recalled(*session);
  } else if (std::holds_alternative<link::Charge>(message) ||
             std::holds_alternative<link::QueryMemory>(message)) {
    session->memory_questions.push_back(message);
    if (session->memory_questions.size() == 1) answer_memory(session);
  }
}

/// In the order in which they were asked, as far as they can be answered by now.
void Broker::answer_memory(const std::shared_ptr<Session>& session) {
  auto& questions = session->memory_questions;
  for (; !questions.empty(); questions.pop_front()) {
    if (const auto* query = std::get_if<link::QueryMemory>(&questions.front())) {
      send_answer(*session, query->device, true);
      continue;
    }
    const auto& asked = std::get<link::Charge>(questions.front());
    const bool is_granted = charge(*session, asked);
    const bool could_be = !is_granted && !is_beyond_wish(*session, asked);
    if (could_be && recall_others(session, asked.device)) return;
    session->recalled.clear();
    if (!is_granted) deny(*session, asked);
    send_answer(*session, asked.device, is_granted);
  }
}

/// False if nobody has anything.
bool Broker::recall_others(const std::shared_ptr<Session>& session, std::uint32_t device) {
  for (const auto& [id, other] : sessions_) {
    if (other == session || other->tenant.name != session->tenant.name ||
        ledger_.held_bytes(id, device) == 0)
      continue;
    // One that ends gives back everything.
    if (other->is_ending || link::send_message(other->worker.link.get(), link::Recall{}))
      session->recalled.insert(id);
  }
  if (session->recalled.empty()) return false;
  at(Clock::now() + kRecallTime,
     [this, weak = std::weak_ptr<Session>(session), number = ++session->recalls] {
       const auto late = weak.lock();
       if (late == nullptr || late->recalls != number || late->recalled.empty()) return;
       late->recalled.clear();  // what nobody gives back is in use
       settle_memory(late);
     });
  return true;
}

void Broker::on_recalled(const Session& session) {
  std::vector<std::shared_ptr<Session>> asking;
  for (const auto& [id, other] : sessions_)
    if (other->recalled.erase(session.id) != 0 && other->recalled.empty()) asking.push_back(other);
  for (const auto& other : asking) settle_memory(other);
}

/// Everybody has answered, or is not going to.
void Broker::settle_memory(const std::shared_ptr<Session>& session) {
  if (session->memory_questions.empty()) return;
  const auto asked = std::get<link::Charge>(session->memory_questions.front());
  session->memory_questions.pop_front();
  const bool is_granted = charge(*session, asked);
  if (!is_granted) deny(*session, asked);
  send_answer(*session, asked.device, is_granted);
  answer_memory(session);
}

void Broker::retry_memory(const std::string& tenant) {
  std::vector<std::shared_ptr<Session>> asking;
  for (const auto& [id, other] : sessions_)
    if (!other->recalled.empty() && other->tenant.name == tenant) asking.push_back(other);
  for (const auto& session : asking) {
    const auto asked = std::get<link::Charge>(session->memory_questions.front());
    if (!charge(*session, asked)) continue;
    session->recalled.clear();
    session->memory_questions.pop_front();
    send_answer(*session, asked.device, true);
    answer_memory(session);
  }
}

}  // namespace sluice::server
