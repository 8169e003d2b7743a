// A device in virtual time: it runs what the dispatcher grants, one command after the other, and
// tells each end after a delay. Nothing depends on the machine's speed, so figures are exact. For
// the tests of the policies, and for `sluicectl bench quota`.
#pragma once

#include "scheduler/device/cost_model.h"
#include "scheduler/device/dispatcher.h"
#include "scheduler/simulation/event_loop.h"

#include <map>
#include <memory>
#include <queue>
#include <random>
#include <string_view>
#include <vector>

namespace sluice::scheduler::simulation {

using namespace std::chrono_literals;

/// Instead of a policy's name: nobody decides, and what was issued first runs first.
inline constexpr std::string_view kNative = "native";

/// What a tenant runs.
struct Load {
  /// A kernel's length is drawn evenly from these.
  Duration shortest = 200us, longest = 200us;
  unsigned depth = 64;  ///< commands that it keeps issued
  Time from{}, until = Time::max();
  /// With a period: a burst of `depth` kernels each period, nothing between.
  Duration period{0};
};

class Simulation : public EventLoop {
 public:
  explicit Simulation(std::string_view policy = "fair-share", Duration notice = 10us,
                      DispatcherOptions options = {});

  void add(TenantId tenant, const Share& share, const Load& load);

  /// Of a policy.
  Dispatcher& dispatcher() { return *dispatcher_; }
  [[nodiscard]] bool is_native() const { return dispatcher_ == nullptr; }

  // ---- what has happened
  /// Fraction of [from, to) in which the tenant's kernels ran.
  [[nodiscard]] double use(TenantId tenant, Time from, Time to) const;
  /// Of all tenants together.
  [[nodiscard]] double use(Time from, Time to) const;
  /// The largest and the smallest use in windows of that length, one after the other.
  [[nodiscard]] double most(TenantId tenant, Time from, Time to, Duration window) const;
  [[nodiscard]] double least(TenantId tenant, Time from, Time to, Duration window) const;
  /// Of the bursts that began at `from` or later: from the issue to the end, sorted.
  [[nodiscard]] std::vector<Duration> burst_times(TenantId tenant, Time from) const;
  /// The longest time that a command of the tenant waited.
  [[nodiscard]] Duration longest_wait(TenantId tenant) const;

 private:
  struct Program {
    Load load;
    std::mt19937 random;
    std::vector<std::pair<Time, Time>> ran;         ///< begin, end; in order
    std::vector<std::pair<Time, Duration>> bursts;  ///< when each began
    Time burst_from{};
    unsigned burst_left = 0;
    Duration longest_wait{0};
  };
  struct Command {
    TenantId tenant;
    Duration length;
    Time issued;
  };
  void issue(TenantId tenant);
  void begin_burst(TenantId tenant);
  void grant();
  void start_next();
  void on_end(Ticket ticket);
  void look_again();

  std::unique_ptr<Dispatcher> dispatcher_;  ///< null: native
  CostModel model_;
  Duration notice_;
  Time look_at_ = Time::max();
  std::map<TenantId, Program> programs_;
  std::map<Ticket, Command> commands_;
  Ticket last_ticket_ = 0;
  std::queue<Ticket> granted_;
  bool is_busy_ = false;
};

}  // namespace sluice::scheduler::simulation
