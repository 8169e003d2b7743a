// The devices' time: who gets how much of it is the tenants' settings, who has it now is decided by
// server/turns on a thread of its own.
#include "common/duration.h"
#include "common/format.h"
#include "common/log.h"
#include "server/broker/broker.h"
#include "server/broker/session.h"

namespace sluice::server {

Status Broker::start_turns() {
  turns::TurnOptions options;
  options.kernel_max = options_.config.kernel_max;
  SLUICE_TRY(turns_,
             turns::TurnServer::start(
                 options_.config.compute_policy, options,
                 [this](std::uint64_t session, turns::Duration late, bool is_final) {
                   const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(late);
                   post([this, session, ms, is_final] { on_overrun(session, ms, is_final); });
                 }));
  return {};
}

/// Without them a worker computes nothing: no session without a share.
Status Broker::give_turns(const Session& session) {
  SLUICE_TRY(const turns::Seat seat,
             turns_->attach(session.id, session.tenant.name, tenant_of(session).share,
                            session.limits.compute));
  using Part = link::TurnPart::Part;
  const int link = session.worker.link.get();
  SLUICE_CHECK(link::send_message(link, link::TurnPart{Part::kGrants}, seat.grants));
  SLUICE_CHECK(link::send_message(link, link::TurnPart{Part::kUses}, seat.uses));
  return link::send_message(link, link::TurnPart{Part::kBell}, seat.bell);
}

void Broker::on_overrun(std::uint64_t id, std::chrono::milliseconds late, bool is_final) {
  const auto found = sessions_.find(id);
  if (found == sessions_.end() || found->second->is_ending) return;
  const std::shared_ptr<Session> session = found->second;
  const std::string kernel =
      format("a kernel has kept others from the device for {}", duration_text(late));
  if (is_final)
    return end_session(session, wire::EndingCode::kKilled,
                       kernel + " (kernel_max in [server] of sluiced.toml)");
  SLUICE_LOG_WARN("session", "session={} tenant={}: {}; after {} the session is ended", id,
                  session->tenant.name, kernel, duration_text(options_.config.kernel_max));
}

/// The tenants' settings have changed.
void Broker::update_shares() {
  update_ledger();
  for (const auto& [id, session] : sessions_)
    turns_->set_share(session->tenant.name, tenant_of(*session).share);
  for (const auto& [name, used] : usage_) meter_tenant(name);
}

}  // namespace sluice::server
