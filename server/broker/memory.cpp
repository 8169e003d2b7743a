// The workers' questions to the ledger. Before a tenant is refused memory, its other sessions are
// asked to give back what they keep and do not use.
#include "common/format.h"
#include "common/log.h"
#include "server/broker/broker.h"
#include "server/broker/session.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
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

/// The others are measured (link::Measured), and nobody is asked.
bool can_be_asked(MemoryKind kind) {
  return class_of(kind) != MemoryClass::kNeither && kind != MemoryKind::kLibrary;
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
  if (!sent) kill_worker(session, sent.error().message);
}

/// The session itself has asked for no more, whatever its tenant has left.
bool Broker::is_beyond_wish(const Session& session, const link::Charge& charge) const {
  const std::uint64_t own = session.limits.lowered(limit_of(session, charge.device), charge.device);
  return charge.bytes > rest(own, ledger_.held_bytes(session.id, charge.device));
}

Ledger::Verdict Broker::charge(Session& session, const link::Charge& charge) {
  const bool is_charged = counts_against_slice(session, charge.kind);
  if (is_charged && is_beyond_wish(session, charge)) return Ledger::Verdict::kSliceFull;
  const std::uint64_t device_bytes =
      charge.device < session.device_bytes.size() ? session.device_bytes[charge.device] : 0;
  const Ledger::Verdict verdict =
      ledger_.charge(holder(session, charge.device), charge.kind, charge.bytes,
                     {limit_of(session, charge.device), device_bytes});
  if (verdict == Ledger::Verdict::kGranted) on_ledger_change(session.tenant.name);
  return verdict;
}

Ledger::Holder Broker::holder(const Session& session, std::uint32_t device) {
  return {session.id, session.tenant.name, device};
}

bool Broker::counts_against_slice(const Session& session, MemoryKind kind) const {
  return class_of(kind) == MemoryClass::kSlice ||
         (class_of(kind) == MemoryClass::kOverhead && tenant_of(session).charges_context);
}

/// The tenants' settings have changed.
void Broker::update_ledger() {
  std::set<std::string> charged;
  for (const config::Tenant& tenant : tenants_.all())
    if (tenant.charges_context) charged.insert(tenant.name);
  ledger_.charge_overhead_of(std::move(charged));
}

void Broker::on_ledger_change(const std::string& tenant) {
  meter_tenant(tenant);
  watch_ledger();
}

/// Once it is wrong it stays so: said once, and nothing is granted any more.
void Broker::watch_ledger() {
  if (!ledger_.is_broken() || std::exchange(is_ledger_mourned_, true)) return;
  SLUICE_LOG_ERROR("quota",
                   "the memory ledger is inconsistent: {}. No memory and no session is granted any "
                   "more; sessions that run go on with what they have. Restart the server, and "
                   "report this line",
                   ledger_.violation());
}

/// What is refunded was charged, else the worker is not to be believed.
void Broker::on_refund(Session& session, const link::Refund& refund) {
  if (!ledger_.refund(holder(session, refund.device), refund.kind, refund.bytes))
    return kill_worker(session, format("it gives back {} bytes of {} on device {} that it was "
                                       "never charged for",
                                       refund.bytes, name_of(refund.kind), refund.device));
  on_ledger_change(session.tenant.name);
  retry_memory(session.tenant.name);
}

void Broker::on_memory(const std::shared_ptr<Session>& session, const link::Message& message) {
  if (const auto* refund = std::get_if<link::Refund>(&message)) {
    on_refund(*session, *refund);
  } else if (const auto* measured = std::get_if<link::Measured>(&message)) {
    on_measured(*session, *measured);
  } else if (const auto* spare = std::get_if<link::Spare>(&message)) {
    ledger_.note_spare(holder(*session, spare->device), spare->bytes);
  } else if (std::holds_alternative<link::RecallDone>(message)) {
    on_recalled(*session);
  } else if (const auto* asked = std::get_if<link::Charge>(&message);
             asked != nullptr && !can_be_asked(asked->kind)) {
    kill_worker(*session, format("it asks for memory of kind {}", name_of(asked->kind)));
  } else if (asked != nullptr || std::holds_alternative<link::QueryMemory>(message)) {
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
    const Ledger::Verdict verdict = charge(*session, asked);
    const bool could_be =
        verdict == Ledger::Verdict::kSliceFull && !is_beyond_wish(*session, asked);
    if (could_be && recall_others(session, asked.device)) return;
    session->recalled.clear();
    answer_charge(*session, asked, verdict);
  }
}

void Broker::answer_charge(Session& session, const link::Charge& asked, Ledger::Verdict verdict) {
  const bool is_granted = verdict == Ledger::Verdict::kGranted;
  if (!is_granted) deny(session, asked, verdict);
  send_answer(session, asked.device, is_granted);
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
  answer_charge(*session, asked, charge(*session, asked));
  answer_memory(session);
}

void Broker::retry_memory(const std::string& tenant) {
  std::vector<std::shared_ptr<Session>> asking;
  for (const auto& [id, other] : sessions_)
    if (!other->recalled.empty() && other->tenant.name == tenant) asking.push_back(other);
  for (const auto& session : asking) {
    const auto asked = std::get<link::Charge>(session->memory_questions.front());
    if (charge(*session, asked) != Ledger::Verdict::kGranted) continue;
    session->recalled.clear();
    session->memory_questions.pop_front();
    send_answer(*session, asked.device, true);
    answer_memory(session);
  }
}

}  // namespace sluice::server
