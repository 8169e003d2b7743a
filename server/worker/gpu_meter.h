// How long the device was busy for this session, measured with the driver's own events: a busy
// period of a stream runs from the first work issued after it was known idle to the next completion
// that covers it. Periods of a context's streams that overlap count once. Where the events say
// nothing (the context failed, or was taken away under its work) the host's clock bounds the period
// from above: a fault never erases the bill. (Slices will measure each command; this is the
// session's total for reports.)
#pragma once

#include "driver/driver_table.h"
#include "server/worker/intervals.h"

#include <cuda.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>

namespace sluice::server {

class GpuMeter {
 public:
  explicit GpuMeter(const DriverTable& driver) : driver_(driver) {}

  /// Decode thread, before device work is issued in the stream of the current context.
  void begin(CUcontext context, CUstream stream);
  /// Decode thread, when a completion item for the stream is about to be made: closes the busy
  /// period there.
  void end(CUcontext context, CUstream stream);
  /// Any thread, when work has completed: adds the periods that are over.
  void collect();
  /// Decode thread, when the session is over: closes what is open and waits a little for it. What
  /// still runs then ends with the process, and counts up to now.
  void finish(std::chrono::milliseconds patience);
  /// The stream, or the context and its events, are gone.
  void forget(CUcontext context, CUstream stream);
  void forget(CUcontext context);
  [[nodiscard]] std::uint64_t busy_us() const { return busy_us_.load(std::memory_order_relaxed); }

 private:
  using Clock = std::chrono::steady_clock;
  struct Period {
    CUevent start = nullptr, stop = nullptr;
    Clock::time_point began_at;  ///< when begin() was called
    enum class State { kIdle, kOpen, kClosing } state = State::kIdle;
  };
  /// The streams of one context. Times are relative to `base`, which is recorded anew whenever no
  /// period is open: so they stay small and exact.
  struct Context {
    CUevent base = nullptr;
    Clock::time_point base_at;
    std::size_t active = 0;  ///< periods that are open or closing
    Intervals busy;
    std::map<CUstream, Period> periods;
  };
  void close(Context& context, CUstream stream);
  void collect_locked();
  /// Adds a closing period that is over; false while it is not.
  bool settle(Context& context, Period& period);
  /// What settle() adds, from the events; false if they do not say.
  bool add_measured(Context& context, const Period& period);
  /// The period lasted from begin() until now at most.
  void add_by_host(Context& context, const Period& period);
  void add(Context& context, double from_ms, double to_ms);
  /// Ends a period whose events are about to be gone.
  void end_now(Context& context, Period& period);
  void leave(Context& context, Period& period);
  void set_base(Context& context, CUstream stream);

  const DriverTable& driver_;
  std::mutex mutex_;
  std::map<CUcontext, Context> contexts_;
  std::size_t closing_ = 0;  ///< periods in that state
  std::atomic<std::uint64_t> busy_us_{0};
};

}  // namespace sluice::server
