// Decides, for one device, whose work runs next. Work is a ticket with an estimated cost; a granted
// ticket may run at once, and its measured cost is told when it has. The dispatcher never runs
// anything, has no thread and no clock: every call says what time it is.
//
// What is under way is bounded in time (the window), not in number: behind long kernels a deep
// queue would make everybody wait, behind short ones a shallow queue would let the device idle.
#pragma once

#include "scheduler/device/policy.h"

#include <map>
#include <memory>
#include <vector>

namespace sluice::scheduler {

struct DispatcherOptions {
  /// The window while a tenant of class interactive or realtime is attached, and else.
  Duration latency_window = std::chrono::microseconds(500);
  Duration window = std::chrono::milliseconds(4);
  std::size_t tickets_max = 64;  ///< under way at once
  /// What is charged for a command that was never seen, until it has run.
  Duration unknown_cost = std::chrono::microseconds(50);
};

/// What a tenant had so far.
struct Account {
  Duration served{0};                         ///< measured
  std::array<Duration, kReasonCount> held{};  ///< by Reason
  std::size_t waiting = 0, running = 0;       ///< tickets now
};

/// Confined to one thread. Times must not go back.
class Dispatcher {
 public:
  explicit Dispatcher(std::unique_ptr<Policy> policy, DispatcherOptions options = {});

  /// Attaches a tenant or changes its share, at once. The share has passed check().
  void set_share(TenantId tenant, const Share& share, Time now);
  /// Takes the tenant away, and what it has waiting; what is under way stays in the window until it
  /// is completed or cancelled.
  void remove(TenantId tenant, Time now);

  /// The tenant (attached) has work. Its tickets are granted in this order; `ticket` is new. What
  /// has no estimate takes half the window: it may be much longer than anybody would guess.
  void enqueue(TenantId tenant, Ticket ticket, std::optional<Duration> estimate, Time now);
  /// What may start now, in this order.
  std::vector<Ticket> dispatch(Time now);
  /// Somebody waits whom no limit holds.
  [[nodiscard]] bool has_ready(Time now) { return !ready(now).empty(); }
  /// The highest class among them; the lowest if there is nobody.
  [[nodiscard]] Class ready_class(Time now);
  /// The fraction of the device that the tenant (attached) may use at most.
  [[nodiscard]] double limit(TenantId tenant) const { return limit_of(tenants_.at(tenant)); }
  /// Somebody of class interactive or realtime is attached.
  [[nodiscard]] bool has_latency_class() const;
  /// A granted ticket has run for `actual`; false: there is no such ticket.
  bool complete(Ticket ticket, Duration actual, Time now);
  /// Whoever had the ticket is gone: it costs nothing if it was not granted, else what it was
  /// estimated at.
  bool cancel(Ticket ticket, Time now);

  /// When dispatch() may find more to grant although nothing happens: a bucket opens.
  /// Time::max(): never.
  [[nodiscard]] Time next_look(Time now) const;
  [[nodiscard]] Account account(TenantId tenant) const;
  /// What is granted takes so much of the window.
  [[nodiscard]] Duration under_way() const { return under_way_; }

 private:
  struct Running {
    TenantId tenant;
    Duration estimate;
    Duration room;  ///< what it takes of the window
    bool is_reserved;
  };
  [[nodiscard]] double limit_of(const TenantState& tenant) const;
  [[nodiscard]] Duration window() const;
  [[nodiscard]] Duration room_of(const TenantState::Waiting& work) const;
  [[nodiscard]] bool fits(Duration room) const;
  /// Tenants with work whose bucket is open, by id.
  std::vector<TenantState*> ready(Time now);
  Ticket grant(const Policy::Choice& choice, Time now);
  void refill(TenantState& tenant, Time now);
  void note_held(Time now);

  std::unique_ptr<Policy> policy_;
  DispatcherOptions options_;
  Tags tags_;
  std::map<TenantId, TenantState> tenants_;
  std::map<Ticket, Running> running_;
  double weights_ = 0;
  Duration under_way_{0};
  Time looked_at_{};  ///< until when `held` has been counted
};

}  // namespace sluice::scheduler
