// Divides one way of data (from the host to a device, or back) among the sessions that use it, by
// their tenants' weights. A way is not held as a device is: a copy may wait in its stream for a
// kernel. So a session is allowed some more bytes when it wants to begin a copy, whoever has had
// least for its weight first, and only so much is allowed and not moved in all.
//
// Guarantees, limits and classes are of the device's time: of a way all get by their weights, so
// that no class stops the others' data with a long copy. Small copies wait for nobody: a session
// that has moved nothing for a while has two quanta in advance.
//
// A session that is alone asks nobody. No thread, no clock, no descriptors here: turn_server.h
// drives it.
#pragma once

#include "scheduler/device/dispatcher.h"
#include "server/turns/pages.h"

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>

namespace sluice::server::turns {

/// One session's pages, for one way.
class CopyPort {
 public:
  virtual ~CopyPort() = default;
  virtual void set_free(scheduler::Time until) = 0;  ///< Time{}: no more
  virtual void set_allowance(std::uint64_t bytes) = 0;
  /// Of what the worker says, only growth counts.
  [[nodiscard]] virtual std::uint64_t moved_bytes() const = 0;
  [[nodiscard]] virtual std::uint64_t wanted_bytes() const = 0;
};

struct CopyQueueOptions {
  /// Allowed and not moved, of all sessions together.
  std::uint64_t window_bytes = 4 * kCopyQuantumBytes;
  /// How often sessions that move something are looked at.
  scheduler::Duration look_interval = std::chrono::milliseconds(20);
  /// A session that has moved nothing for so long uses the way no more.
  scheduler::Duration idle_after = std::chrono::milliseconds(100);
  /// What a session was allowed and has not moved after that long keeps nobody else waiting.
  scheduler::Duration stuck_after = std::chrono::milliseconds(60);
  /// A permission to move freely ends by itself after that long: fail closed.
  scheduler::Duration lease = std::chrono::milliseconds(250);
};

/// Confined to one thread.
class CopyQueue {
 public:
  using Time = scheduler::Time;
  using TenantId = scheduler::TenantId;
  using SeatId = std::uint64_t;

  explicit CopyQueue(CopyQueueOptions options = {});

  void set_weight(TenantId tenant, double weight, Time now);
  void remove_tenant(TenantId tenant, Time now);
  /// The tenant has a weight. `port` lives until detach().
  void attach(SeatId seat, TenantId tenant, CopyPort* port, Time now);
  void detach(SeatId seat, Time now);

  /// A session says that something changed.
  void look() { is_looked_at_ = true; }
  /// Does what is due.
  void run(Time now);
  /// When something may be due although nobody says anything. Time::max(): never.
  [[nodiscard]] Time next_look() const { return next_look_; }

 private:
  struct Granted {
    scheduler::Ticket ticket;
    std::uint64_t up_to_bytes;
    Time since;
  };
  struct Seat {
    TenantId tenant = 0;
    CopyPort* port = nullptr;
    std::uint64_t moved_bytes = 0, allowance_bytes = 0;
    Time moved_at{};
    bool is_free = false;
    bool is_active = false;  ///< at the last look it used the way
    bool is_stuck = false;   ///< until it moves something
    std::optional<scheduler::Ticket> waiting;
    std::deque<Granted> granted;
  };

  void observe(Seat& seat, Time now);
  void rest(Seat& seat, Time now);
  void let_free(Seat& seat, Time now);
  void divide(Time now);
  void want(SeatId id, Seat& seat, Time now);
  void grant(scheduler::Ticket ticket, Time now);
  void drop_tickets(Seat& seat, Time now);
  static void bind(Seat& seat);
  static void allow(Seat& seat, std::uint64_t bytes);

  const CopyQueueOptions options_;
  scheduler::Dispatcher dispatcher_;
  std::map<SeatId, Seat> seats_;
  std::map<scheduler::Ticket, SeatId> waiting_;
  scheduler::Ticket next_ticket_ = 1;
  bool is_looked_at_ = false;
  Time next_look_ = Time::max();
};

}  // namespace sluice::server::turns
