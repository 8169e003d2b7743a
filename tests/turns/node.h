// One device and its sessions in virtual time: sessions compute block by block while their turn is
// open, and ring where a worker does. Nothing depends on the machine's speed, so figures are exact.
#pragma once

#include "scheduler/simulation/event_loop.h"
#include "server/turns/device_turns.h"

#include <map>
#include <memory>
#include <string_view>
#include <vector>

namespace sluice::test {

using namespace std::chrono_literals;
using scheduler::Duration;
using scheduler::Share;
using scheduler::TenantId;
using scheduler::Time;
using server::turns::DeviceTurns;
using server::turns::SeatId;
using server::turns::TurnOptions;

/// What a session's program does.
struct Program {
  Duration block = 20us;  ///< what cannot be interrupted
  Duration kernel = 1ms;  ///< of device time
  Duration pause{0};      ///< of the host, after each kernel
  Time from{}, until = Time::max();
  double limit = 1;  ///< its own, of the device's time
};

class Node : public scheduler::simulation::EventLoop {
 public:
  explicit Node(std::string_view policy = "fair-share", TurnOptions options = {});
  ~Node();

  void tenant(TenantId tenant, const Share& share);
  void session(SeatId seat, TenantId tenant, const Program& program);

  DeviceTurns& turns() { return turns_; }
  /// Its worker is gone, from one moment to the next.
  void kill(SeatId seat);

  // ---- what has happened
  /// Fraction of [from, to) that the session computed.
  [[nodiscard]] double use(SeatId seat, Time from, Time to) const;
  [[nodiscard]] double most(SeatId seat, Time from, Time to, Duration window) const;
  [[nodiscard]] unsigned opened(SeatId seat) const;
  [[nodiscard]] unsigned closed(SeatId seat) const;
  /// From a kernel's issue to its first block; sorted.
  [[nodiscard]] std::vector<Duration> waits(SeatId seat) const;
  /// Two sessions computed at one time.
  [[nodiscard]] bool has_overlapped() const { return has_overlapped_; }
  struct Overrun {
    SeatId seat;
    Duration late;
    bool is_final;
  };
  std::vector<Overrun> overruns;

 private:
  struct Session;
  void begin_kernel(SeatId seat);
  void next_block(SeatId seat);
  void end_block(SeatId seat, Time began);
  void serve();

  DeviceTurns turns_;
  Time look_at_ = Time::max();
  std::map<SeatId, std::unique_ptr<Session>> sessions_;
  bool has_overlapped_ = false;
};

}  // namespace sluice::test
