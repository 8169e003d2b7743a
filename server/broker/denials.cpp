// What the log says when memory is refused: who holds what, and what to do about it.
#include "common/format.h"
#include "common/log.h"
#include "common/size.h"
#include "server/broker/broker.h"
#include "server/broker/session.h"
#include "server/config/kinds_text.h"

#include <string>

namespace sluice::server {
namespace {

using namespace std::chrono_literals;
constexpr auto kLogInterval = 10s;
constexpr std::size_t kHoldersMax = 8;

}  // namespace

/// The tenant's sessions that hold anything there.
std::string Broker::holders_text(const std::string& tenant, std::uint32_t device) const {
  std::string out;
  std::size_t count = 0;
  for (const auto& [id, session] : sessions_) {
    const MemoryByKind kinds = ledger_.kinds_of(id, device);
    if (session->tenant.name != tenant || kinds == MemoryByKind{}) continue;
    if (++count <= kHoldersMax)
      out += format("{}session {} ({}:{} {}) {} ({})", out.empty() ? ": " : ", ", id,
                    session->hello.host, session->hello.pid, session->hello.program,
                    size_text(ledger_.held_bytes(id, device)), config::kinds_text(kinds));
  }
  if (count > kHoldersMax) out += format(" and {} more", count - kHoldersMax);
  return out;
}

/// Why, and what to do.
std::string Broker::denial_text(const Session& session, const link::Charge& asked,
                                Ledger::Verdict verdict) const {
  const std::string& tenant = session.tenant.name;
  const std::uint64_t limit = limit_of(session, asked.device);
  if (verdict == Ledger::Verdict::kBroken)
    return "the ledger is inconsistent and grants nothing: restart the server";
  if (verdict == Ledger::Verdict::kDeviceFull) {
    const Ledger::Sums sums = ledger_.sums_of(asked.device);
    return format(
        "the device is full: all tenants have {} of it, and {} are overhead of contexts and "
        "libraries{}. End sessions (sluicectl ps, sluicectl kill) or give tenants less "
        "(sluicectl tenant set NAME --memory)",
        size_text(sums.slice_bytes), size_text(sums.overhead_bytes),
        holders_text(tenant, asked.device));
  }
  const std::uint64_t own = session.limits.lowered(limit, asked.device);
  return format(
      "{} of {} are in use{}{}. End a session (sluicectl kill) or raise the limit "
      "(sluicectl tenant set {} --memory)",
      size_text(ledger_.used_bytes(tenant, asked.device)), size_text(limit),
      holders_text(tenant, asked.device),
      own < limit ? format("; the program itself asked for no more than {}", size_text(own)) : "",
      tenant);
}

/// Counted; and said, now and then: a program may ask again and again.
void Broker::deny(Session& session, const link::Charge& asked, Ledger::Verdict verdict) {
  Denials& denials = denials_[session.tenant.name];
  ++denials.count;
  const auto now = Clock::now();
  if (denials.count > 1 && now - denials.logged < kLogInterval) return;
  denials.logged = now;
  SLUICE_LOG_WARN(
      "quota", "session={} tenant={} device={}: {} more ({}) are refused: {}; {} refusals so far",
      session.id, session.tenant.name, asked.device, size_text(asked.bytes), name_of(asked.kind),
      denial_text(session, asked, verdict), denials.count);
}

}  // namespace sluice::server
