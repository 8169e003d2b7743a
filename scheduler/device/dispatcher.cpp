#include "scheduler/device/dispatcher.h"

#include <algorithm>

namespace sluice::scheduler {
namespace {

/// A guarantee that was not claimed is not saved up for longer than this.
constexpr Duration kDueMax = std::chrono::milliseconds(10);

Duration scaled(Duration time, double by) {
  return Duration(static_cast<Duration::rep>(static_cast<double>(time.count()) * by));
}

}  // namespace

Dispatcher::Dispatcher(std::unique_ptr<Policy> policy, DispatcherOptions options)
    : policy_(std::move(policy)), options_(options) {}

double Dispatcher::limit_of(const TenantState& tenant) const {
  return policy_->limit(tenant, weights_);
}

bool Dispatcher::has_latency_class() const {
  return std::any_of(tenants_.begin(), tenants_.end(), [](const auto& known) {
    return known.second.share.cls >= Class::kInteractive;
  });
}

Duration Dispatcher::window() const {
  return has_latency_class() ? options_.latency_window : options_.window;
}

Class Dispatcher::ready_class(Time now) {
  Class highest = Class::kBestEffort;
  for (const TenantState* tenant : ready(now)) highest = std::max(highest, tenant->share.cls);
  return highest;
}

Duration Dispatcher::room_of(const TenantState::Waiting& work) const {
  return work.estimate.value_or(window() / 2);
}

bool Dispatcher::fits(Duration room) const {
  if (running_.empty()) return true;  // one always: else what is longer than the window never runs
  return running_.size() < options_.tickets_max && under_way_ + room <= window();
}

void Dispatcher::set_share(TenantId id, const Share& share, Time now) {
  note_held(now);
  const auto [at, is_new] = tenants_.try_emplace(id);
  TenantState& tenant = at->second;
  tenant.id = id;
  if (is_new) {
    tenant.due = now;
  } else {
    tenant.bucket.refill(now, limit_of(tenant));
    weights_ -= tenant.share.weight;
  }
  tags_.change(tenant, share);
  tags_.lift(tenant);
  weights_ += share.weight;
}

void Dispatcher::remove(TenantId id, Time now) {
  note_held(now);
  const auto found = tenants_.find(id);
  if (found == tenants_.end()) return;
  weights_ -= found->second.share.weight;
  tenants_.erase(found);
}

void Dispatcher::enqueue(TenantId id, Ticket ticket, std::optional<Duration> estimate, Time now) {
  note_held(now);
  const auto found = tenants_.find(id);
  if (found == tenants_.end()) return;
  TenantState& tenant = found->second;
  if (tenant.is_idle()) tags_.lift(tenant);
  tenant.waiting.push_back({ticket, estimate});
}

void Dispatcher::refill(TenantState& tenant, Time now) {
  tenant.bucket.refill(now, limit_of(tenant));
  const bool is_limited = !tenant.bucket.is_open();
  if (tenant.was_limited && !is_limited) tags_.lift(tenant);
  tenant.was_limited = is_limited;
}

std::vector<TenantState*> Dispatcher::ready(Time now) {
  std::vector<TenantState*> out;
  for (auto& [id, tenant] : tenants_) {
    refill(tenant, now);
    if (tenant.has_work() && tenant.bucket.is_open()) out.push_back(&tenant);
  }
  return out;
}

std::vector<Ticket> Dispatcher::dispatch(Time now) {
  note_held(now);
  std::vector<Ticket> granted;
  std::vector<TenantState*> candidates = ready(now);
  while (!candidates.empty()) {
    const Policy::Choice choice = policy_->pick(now, candidates);
    // Whose turn it is waits for the window; nobody shorter goes before it.
    if (!fits(room_of(choice.tenant->waiting.front()))) break;
    granted.push_back(grant(choice, now));
    if (!choice.tenant->has_work() || !choice.tenant->bucket.is_open())
      std::erase(candidates, choice.tenant);
  }
  return granted;
}

Ticket Dispatcher::grant(const Policy::Choice& choice, Time now) {
  TenantState& tenant = *choice.tenant;
  const TenantState::Waiting next = tenant.waiting.front();
  tenant.waiting.pop_front();
  const Duration estimate = next.estimate.value_or(options_.unknown_cost);
  const Duration room = room_of(next);
  tags_.charge(tenant, estimate);
  tenant.bucket.take(estimate);
  // Only what is served because of the guarantee counts towards it: else a tenant that has used
  // spare time would have lost its guarantee when the others come back.
  if (choice.is_reserved)
    tenant.due = std::max(tenant.due, now - kDueMax) + scaled(estimate, 1 / tenant.share.guarantee);
  ++tenant.running;
  under_way_ += room;
  running_.emplace(next.ticket, Running{tenant.id, estimate, room, choice.is_reserved});
  return next.ticket;
}

bool Dispatcher::complete(Ticket ticket, Duration actual, Time now) {
  note_held(now);
  const auto found = running_.find(ticket);
  if (found == running_.end()) return false;
  const Running run = found->second;
  running_.erase(found);
  under_way_ -= run.room;
  const auto owner = tenants_.find(run.tenant);
  if (owner == tenants_.end()) return true;
  TenantState& tenant = owner->second;
  --tenant.running;
  tenant.served += actual;
  tags_.correct(tenant, run.estimate, actual);
  tenant.bucket.take(actual - run.estimate);
  tenant.bucket.bound_debt(Tags::kDebtMax);
  if (run.is_reserved && tenant.share.guarantee > 0)
    tenant.due += scaled(actual - run.estimate, 1 / tenant.share.guarantee);
  return true;
}

bool Dispatcher::cancel(Ticket ticket, Time now) {
  const auto found = running_.find(ticket);
  if (found != running_.end()) return complete(ticket, found->second.estimate, now);
  note_held(now);
  for (auto& [id, tenant] : tenants_)
    if (std::erase_if(tenant.waiting, [&](const auto& known) { return known.ticket == ticket; }) >
        0)
      return true;
  return false;
}

Time Dispatcher::next_look(Time now) const {
  Time next = Time::max();
  for (const auto& [id, tenant] : tenants_)
    if (tenant.has_work() && !tenant.bucket.is_open())
      next = std::min(next, tenant.bucket.opens_at(now, limit_of(tenant)));
  return next;
}

void Dispatcher::note_held(Time now) {
  const Duration passed = now - looked_at_;
  looked_at_ = now;
  for (auto& [id, tenant] : tenants_) {
    if (!tenant.has_work()) continue;
    Reason reason = Reason::kShare;
    if (tenant.running > 0) {
      reason = Reason::kWindow;
    } else if (!tenant.bucket.is_open()) {
      reason = Reason::kLimit;
    }
    tenant.held[static_cast<std::size_t>(reason)] += passed;
  }
}

Account Dispatcher::account(TenantId id) const {
  const auto found = tenants_.find(id);
  if (found == tenants_.end()) return {};
  const TenantState& tenant = found->second;
  return {tenant.served, tenant.held, tenant.waiting.size(), tenant.running};
}

}  // namespace sluice::scheduler
