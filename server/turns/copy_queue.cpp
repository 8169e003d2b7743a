#include "server/turns/copy_queue.h"

#include <algorithm>

namespace sluice::server::turns {
namespace {

/// Granted and not moved, of one session; all of the window, for it may be the only one that wants.
constexpr std::size_t kGrantedMax = 4;
/// What a session that is idle may move before it asks.
constexpr std::uint64_t kAdvanceBytes = 2 * kCopyQuantumBytes;

/// The dispatcher knows time only; bytes are as good.
scheduler::Duration cost_of(std::uint64_t bytes) {
  return scheduler::Duration(bytes);
}

scheduler::DispatcherOptions window_of(const CopyQueueOptions& options) {
  scheduler::DispatcherOptions out;
  out.window = out.latency_window = cost_of(options.window_bytes);
  return out;
}

}  // namespace

CopyQueue::CopyQueue(CopyQueueOptions options)
    : options_(options), dispatcher_(scheduler::make_fair_share(), window_of(options)) {}

void CopyQueue::set_weight(TenantId tenant, double weight, Time now) {
  scheduler::Share share;
  share.weight = weight;
  dispatcher_.set_share(tenant, share, now);
}

void CopyQueue::remove_tenant(TenantId tenant, Time now) {
  dispatcher_.remove(tenant, now);
}

void CopyQueue::attach(SeatId id, TenantId tenant, CopyPort* port, Time now) {
  Seat& seat = seats_[id] = {};
  seat.tenant = tenant;
  seat.port = port;
  seat.moved_at = now - options_.idle_after;
  rest(seat, now);
}

void CopyQueue::detach(SeatId id, Time now) {
  const auto found = seats_.find(id);
  if (found == seats_.end()) return;
  drop_tickets(found->second, now);
  seats_.erase(found);
  look();
}

void CopyQueue::run(Time now) {
  if (!is_looked_at_ && now < next_look_) return;
  is_looked_at_ = false;
  Seat* active = nullptr;
  std::size_t count = 0;
  for (auto& [id, seat] : seats_) {
    observe(seat, now);
    if (!seat.is_active) {
      rest(seat, now);
      continue;
    }
    active = &seat;
    ++count;
  }
  next_look_ = count > 0 ? now + options_.look_interval : Time::max();
  if (count == 1) let_free(*active, now);
  if (count > 1) divide(now);
}

void CopyQueue::observe(Seat& seat, Time now) {
  const std::uint64_t moved_bytes = seat.port->moved_bytes();
  if (moved_bytes > seat.moved_bytes) {
    seat.moved_bytes = moved_bytes;
    seat.moved_at = now;
    seat.is_stuck = false;
  }
  while (!seat.granted.empty() && seat.granted.front().up_to_bytes <= seat.moved_bytes) {
    dispatcher_.complete(seat.granted.front().ticket, cost_of(kCopyQuantumBytes), now);
    seat.granted.pop_front();
  }
  // Its copies wait for something else, or it wants no more: it keeps what it was allowed, but the
  // others do not wait for it.
  if (!seat.granted.empty() &&
      now - std::max(seat.moved_at, seat.granted.front().since) >= options_.stuck_after) {
    drop_tickets(seat, now);
    seat.is_stuck = true;
  }
  const bool wants = !seat.is_free && seat.port->wanted_bytes() > seat.allowance_bytes;
  seat.is_active = !seat.is_stuck && (wants || now - seat.moved_at < options_.idle_after);
}

void CopyQueue::allow(Seat& seat, std::uint64_t bytes) {
  if (bytes <= seat.allowance_bytes) return;
  seat.allowance_bytes = bytes;
  seat.port->set_allowance(bytes);
}

void CopyQueue::bind(Seat& seat) {
  if (!seat.is_free) return;
  seat.is_free = false;
  seat.port->set_free(Time{});
}

/// It does not use the way; its next small copies are its own affair.
void CopyQueue::rest(Seat& seat, Time now) {
  drop_tickets(seat, now);
  bind(seat);
  if (!seat.is_stuck) allow(seat, seat.moved_bytes + kAdvanceBytes);
}

void CopyQueue::let_free(Seat& seat, Time now) {
  drop_tickets(seat, now);
  seat.is_free = true;
  seat.port->set_free(now + options_.lease);
}

void CopyQueue::divide(Time now) {
  for (auto& [id, seat] : seats_) {
    if (!seat.is_active) continue;
    bind(seat);
    want(id, seat, now);
  }
  for (bool is_more = true; is_more;) {
    const std::vector<scheduler::Ticket> granted = dispatcher_.dispatch(now);
    is_more = !granted.empty();
    for (const scheduler::Ticket ticket : granted) grant(ticket, now);
  }
}

void CopyQueue::want(SeatId id, Seat& seat, Time now) {
  if (seat.waiting || seat.granted.size() >= kGrantedMax) return;
  if (seat.port->wanted_bytes() <= seat.allowance_bytes) return;
  seat.waiting = next_ticket_++;
  waiting_[*seat.waiting] = id;
  dispatcher_.enqueue(seat.tenant, *seat.waiting, cost_of(kCopyQuantumBytes), now);
}

void CopyQueue::grant(scheduler::Ticket ticket, Time now) {
  const auto known = waiting_.find(ticket);
  const SeatId id = known->second;
  waiting_.erase(known);
  Seat& seat = seats_.at(id);
  seat.waiting.reset();
  // While it was free it may have moved far more than it was ever allowed.
  allow(seat, std::max(seat.allowance_bytes, seat.moved_bytes) + kCopyQuantumBytes);
  seat.granted.push_back({ticket, seat.allowance_bytes, now});
  want(id, seat, now);
}

void CopyQueue::drop_tickets(Seat& seat, Time now) {
  for (const Granted& granted : seat.granted) dispatcher_.cancel(granted.ticket, now);
  seat.granted.clear();
  if (!seat.waiting) return;
  dispatcher_.cancel(*seat.waiting, now);
  waiting_.erase(*seat.waiting);
  seat.waiting.reset();
}

}  // namespace sluice::server::turns
