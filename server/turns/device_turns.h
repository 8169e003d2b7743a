// Turns on one device: at any time one session computes there, so that the time of its turn is its
// own. Who is next, the policies of scheduler/device say. A turn ends when the session has nothing
// to do while others wait, or when it has lasted for a quantum and others wait; it is over once
// nothing of the session computes any more, and only then the next one begins.
//
// A session that is alone keeps the device and says nothing when it starts or stops: then turns
// cost it nothing. What it used is then what it says; while others wait, all the time that it has
// the device for is charged.
//
// No thread, no clock, no descriptors here: turn_server.h drives it.
#pragma once

#include "scheduler/device/dispatcher.h"

#include <functional>
#include <map>
#include <memory>
#include <optional>

namespace sluice::server::turns {

using scheduler::Duration;
using scheduler::TenantId;
using scheduler::Time;
using SeatId = std::uint64_t;

/// One session's pages, for one device.
class Port {
 public:
  virtual ~Port() = default;
  virtual void open(Time until) = 0;  ///< also prolongs
  virtual void close() = 0;
  virtual void set_contended(bool is_contended) = 0;
  /// Of device time that may be under way at once.
  virtual void set_window(Duration window) = 0;
  [[nodiscard]] virtual bool is_running() const = 0;
  [[nodiscard]] virtual bool has_work() const = 0;
  [[nodiscard]] virtual Duration busy(Time now) const = 0;  ///< grows
};

struct TurnOptions {
  Duration quantum = std::chrono::milliseconds(2);
  /// While a tenant of class interactive or realtime is attached.
  Duration latency_quantum = std::chrono::microseconds(500);
  /// For sessions that are held between commands: what may be under way at once while others wait,
  /// and while a tenant of class interactive or realtime is attached.
  Duration window = std::chrono::milliseconds(4);
  Duration latency_window = std::chrono::microseconds(500);
  /// How often a session that is alone is looked at.
  Duration look_interval = std::chrono::milliseconds(20);
  /// A permission ends by itself after that long: fail closed.
  Duration lease = std::chrono::milliseconds(250);
  /// A session that does not stop computing after that long, while others wait, is ended.
  Duration kernel_max = std::chrono::seconds(10);
};

/// Confined to one thread.
class DeviceTurns {
 public:
  /// Of a session that has been told to stop for so long, and goes on: first half of kernel_max,
  /// then all of it.
  using Overrun = std::function<void(SeatId, Duration, bool is_final)>;

  DeviceTurns(std::unique_ptr<scheduler::Policy> policy, TurnOptions options, Overrun on_overrun);

  void set_share(TenantId tenant, const scheduler::Share& share, Time now);
  void remove_tenant(TenantId tenant, Time now);
  /// The tenant has a share. `port` lives until detach(). `limit`: the session's own, a fraction of
  /// the device's time, below its tenant's.
  void attach(SeatId seat, TenantId tenant, Port* port, double limit = 1);
  /// Nothing of the session computes any more.
  void detach(SeatId seat, Time now);

  /// The session says that something changed.
  void look(SeatId seat, Time now);
  /// Does what is due.
  void run(Time now);
  /// When something may be due although nobody says anything. Time::max(): never.
  [[nodiscard]] Time next_look(Time now) const;

  [[nodiscard]] scheduler::Account account(TenantId tenant) const {
    return dispatcher_.account(tenant);
  }
  [[nodiscard]] std::optional<SeatId> holder() const;

 private:
  struct Seat {
    TenantId tenant;
    Port* port;
    std::optional<scheduler::Ticket> waiting;  ///< it waits for a turn with this
    std::optional<Duration> last_turn;
    Duration unpaid{0};  ///< computed without a ticket: charged with the next turn
    double limit = 1;
    scheduler::Bucket bucket;    ///< of that limit
    bool is_over_limit = false;  ///< it has work and waits for the bucket
  };
  static constexpr Time kNever = Time::max();
  struct Holder {
    SeatId seat;
    scheduler::Ticket ticket;
    Time since, ends_at;
    Duration busy_before;
    Time contended_since = kNever, closed_at = kNever;
    bool is_warned = false;
  };

  void want(SeatId id, Seat& seat, Time now);
  void want_again(Time now);
  void begin(scheduler::Ticket ticket, Time now);
  /// False: it holds the device still.
  bool advance(Time now);
  bool close(Time now);
  bool renew(Time now);
  bool note_contention(Time now);
  [[nodiscard]] Duration quantum() const;
  [[nodiscard]] Duration window() const;
  [[nodiscard]] Duration turn_length(const Seat& seat) const;
  [[nodiscard]] Duration used(const Holder& holder, Time now) const;
  void charge(Seat& seat, Time now);
  void finish(Time now);
  void watch_overrun(Time now);

  scheduler::Dispatcher dispatcher_;
  const TurnOptions options_;
  const Overrun on_overrun_;
  std::map<SeatId, Seat> seats_;
  std::map<scheduler::Ticket, SeatId> tickets_;  ///< waiting
  std::map<TenantId, scheduler::Class> classes_;
  std::unique_ptr<Holder> holder_;
  scheduler::Ticket next_ticket_ = 1;
};

}  // namespace sluice::server::turns
