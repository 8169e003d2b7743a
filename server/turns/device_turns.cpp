#include "server/turns/device_turns.h"

#include <algorithm>
#include <utility>

namespace sluice::server::turns {
namespace {

scheduler::DispatcherOptions exclusive() {
  scheduler::DispatcherOptions options;
  options.tickets_max = 1;
  return options;
}

}  // namespace

DeviceTurns::DeviceTurns(std::unique_ptr<scheduler::Policy> policy, TurnOptions options,
                         Overrun on_overrun)
    : dispatcher_(std::move(policy), exclusive()),
      options_(options),
      on_overrun_(std::move(on_overrun)) {}

void DeviceTurns::set_share(TenantId tenant, const scheduler::Share& share, Time now) {
  dispatcher_.set_share(tenant, share, now);
  classes_[tenant] = share.cls;
}

void DeviceTurns::remove_tenant(TenantId tenant, Time now) {
  dispatcher_.remove(tenant, now);
  classes_.erase(tenant);
}

void DeviceTurns::attach(SeatId id, TenantId tenant, Port* port, double limit) {
  Seat& seat = seats_[id] = {};
  seat.tenant = tenant;
  seat.port = port;
  seat.limit = limit;
}

void DeviceTurns::detach(SeatId id, Time now) {
  const auto found = seats_.find(id);
  if (found == seats_.end()) return;
  if (holder_ && holder_->seat == id) {
    dispatcher_.complete(holder_->ticket, used(*holder_, now), now);
    holder_.reset();
  }
  if (const auto waiting = found->second.waiting; waiting) {
    dispatcher_.cancel(*waiting, now);
    tickets_.erase(*waiting);
  }
  seats_.erase(found);
}

std::optional<SeatId> DeviceTurns::holder() const {
  return holder_ != nullptr ? std::optional(holder_->seat) : std::nullopt;
}

void DeviceTurns::look(SeatId id, Time now) {
  const auto found = seats_.find(id);
  if (found == seats_.end()) return;
  if ((!holder_ || holder_->seat != id) && found->second.port->has_work())
    want(id, found->second, now);
}

void DeviceTurns::want(SeatId id, Seat& seat, Time now) {
  if (seat.waiting) return;
  seat.bucket.refill(now, seat.limit);
  seat.is_over_limit = !seat.bucket.is_open();
  if (seat.is_over_limit) return;
  const scheduler::Ticket ticket = next_ticket_++;
  seat.waiting = ticket;
  tickets_[ticket] = id;
  dispatcher_.enqueue(seat.tenant, ticket, seat.last_turn, now);
}

/// Those that their own limit held, and holds no more.
void DeviceTurns::want_again(Time now) {
  for (auto& [id, seat] : seats_) {
    if (!seat.is_over_limit) continue;
    if (seat.port->has_work())
      want(id, seat, now);
    else
      seat.is_over_limit = false;
  }
}

void DeviceTurns::run(Time now) {
  want_again(now);
  while (!holder_ || advance(now)) {
    const std::vector<scheduler::Ticket> granted = dispatcher_.dispatch(now);
    if (granted.empty()) return;
    begin(granted.front(), now);
  }
}

Duration DeviceTurns::quantum() const {
  return dispatcher_.has_latency_class() ? options_.latency_quantum : options_.quantum;
}

Duration DeviceTurns::window() const {
  return dispatcher_.has_latency_class() ? options_.latency_window : options_.window;
}

/// Of a turn that nobody else waits for.
Duration DeviceTurns::turn_length(const Seat& seat) const {
  const bool has_limit = seat.limit < 1 || dispatcher_.limit(seat.tenant) < 1;
  return has_limit ? quantum() : options_.look_interval;
}

void DeviceTurns::begin(scheduler::Ticket ticket, Time now) {
  const auto known = tickets_.find(ticket);
  const SeatId id = known->second;
  tickets_.erase(known);
  Seat& seat = seats_.at(id);
  seat.waiting.reset();
  holder_ = std::make_unique<Holder>(Holder{.seat = id,
                                            .ticket = ticket,
                                            .since = now,
                                            .ends_at = now + turn_length(seat),
                                            .busy_before = seat.port->busy(now)});
  note_contention(now);
  seat.port->set_window(window());
  seat.port->open(now + options_.lease);
}

/// Others wait, or do no more: the session must know, for it gives the device back by itself then.
bool DeviceTurns::note_contention(Time now) {
  Holder& holder = *holder_;
  const Seat& seat = seats_.at(holder.seat);
  const bool is_contended = dispatcher_.has_ready(now);
  if (is_contended && holder.contended_since == kNever) {
    holder.contended_since = now;
    holder.ends_at = std::min(holder.ends_at, std::max(now, holder.since + quantum()));
  }
  // A higher class does not wait for the end of a turn.
  if (is_contended && dispatcher_.ready_class(now) > classes_[seat.tenant]) holder.ends_at = now;
  seat.port->set_contended(is_contended);
  return is_contended;
}

bool DeviceTurns::advance(Time now) {
  Port& port = *seats_.at(holder_->seat).port;
  if (holder_->closed_at == kNever) {
    const bool is_contended = note_contention(now);
    const bool is_idle = !port.has_work() && !port.is_running();
    if (is_contended && (is_idle || now >= holder_->ends_at)) return close(now);
    if (now < holder_->ends_at) return false;
    if (is_idle) return close(now);  // it rings when it has work again
    return renew(now);
  }
  if (port.is_running()) {
    watch_overrun(now);
    return false;
  }
  finish(now);
  return true;
}

bool DeviceTurns::close(Time now) {
  Port& port = *seats_.at(holder_->seat).port;
  port.close();
  holder_->closed_at = now;
  if (port.is_running()) return false;  // its bell rings when it has stopped
  finish(now);
  return true;
}

/// Nobody else waits: it goes on without a pause, unless its limit says no.
bool DeviceTurns::renew(Time now) {
  const SeatId id = holder_->seat;
  Seat& seat = seats_.at(id);
  charge(seat, now);
  if (!seat.bucket.is_open()) {
    // Nothing was enqueued for it: what it still computes is charged with its next turn.
    holder_->since = now;
    holder_->busy_before = seat.port->busy(now);
    return close(now);
  }
  const scheduler::Ticket ticket = next_ticket_++;
  dispatcher_.enqueue(seat.tenant, ticket, seat.last_turn, now);
  const bool is_granted = !dispatcher_.dispatch(now).empty();
  holder_->ticket = ticket;
  holder_->since = now;
  holder_->busy_before = seat.port->busy(now);
  if (!is_granted) {
    dispatcher_.cancel(ticket, now);
    return close(now);
  }
  holder_->ends_at = now + turn_length(seat);
  holder_->contended_since = kNever;
  seat.port->open(now + options_.lease);
  return false;
}

Duration DeviceTurns::used(const Holder& holder, Time now) const {
  const Duration wall = now - holder.since;
  Duration at_least = seats_.at(holder.seat).port->busy(now) - holder.busy_before;
  if (holder.contended_since != kNever) at_least = std::max(at_least, now - holder.contended_since);
  return std::clamp(at_least, Duration(0), wall);
}

void DeviceTurns::charge(Seat& seat, Time now) {
  const Duration turn = used(*holder_, now) + std::exchange(seat.unpaid, Duration(0));
  if (!dispatcher_.complete(holder_->ticket, turn, now)) seat.unpaid = turn;
  seat.last_turn = turn;
  seat.bucket.refill(now, seat.limit);
  seat.bucket.take(turn);
}

void DeviceTurns::finish(Time now) {
  const SeatId id = holder_->seat;
  Seat& seat = seats_.at(id);
  charge(seat, now);
  holder_.reset();
  seat.port->set_contended(false);
  if (seat.port->has_work()) want(id, seat, now);
}

void DeviceTurns::watch_overrun(Time now) {
  const Duration late = now - holder_->closed_at;
  if (late < options_.kernel_max / 2) return;
  const bool is_final = late >= options_.kernel_max;
  if (holder_->is_warned && !is_final) return;
  holder_->is_warned = true;
  if (on_overrun_) on_overrun_(holder_->seat, late, is_final);
}

Time DeviceTurns::next_look(Time now) const {
  Time next = dispatcher_.next_look(now);
  for (const auto& [id, seat] : seats_)
    if (seat.is_over_limit) next = std::min(next, seat.bucket.opens_at(now, seat.limit));
  if (!holder_) return next;
  if (holder_->closed_at == kNever) return std::min(next, holder_->ends_at);
  const Time half = holder_->closed_at + options_.kernel_max / 2;
  const Time end = holder_->closed_at + options_.kernel_max;
  // Beyond the end it is up to whoever was told; it may take a moment.
  const Time due = !holder_->is_warned ? half : std::max(end, now + options_.quantum);
  return std::min(next, due);
}

}  // namespace sluice::server::turns
