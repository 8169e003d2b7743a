// Virtual time: what happens, happens when it is due, in an order that depends on nothing else.
#pragma once

#include "scheduler/device/share.h"

#include <cstdint>
#include <functional>
#include <queue>

namespace sluice::scheduler::simulation {

/// Confined to one thread.
class EventLoop {
 public:
  /// Something that happens then; of one moment, in the order of the calls.
  void at(Time when, std::function<void()> what) {
    events_.push({when, ++last_order_, std::move(what)});
  }
  void run(Time until) {
    while (!events_.empty() && events_.top().when <= until) {
      const Event event = events_.top();
      events_.pop();
      now_ = event.when;
      event.what();
    }
    now_ = until;
  }
  [[nodiscard]] Time now() const { return now_; }

 protected:
  Time now_{};

 private:
  struct Event {
    Time when;
    std::uint64_t order;
    std::function<void()> what;
    bool operator<(const Event& other) const {
      return when != other.when ? when > other.when : order > other.order;
    }
  };
  std::priority_queue<Event> events_;
  std::uint64_t last_order_ = 0;
};

}  // namespace sluice::scheduler::simulation
