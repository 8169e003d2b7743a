// Answers what has to wait for the device, so that the decode thread never does. An item is a set
// of events recorded behind the work and an action; items become ready in any order, but before the
// action of a ready item runs, the data of every copy that was decoded earlier and is complete has
// been sent (items of kind kData first).
#pragma once

#include "driver/driver_table.h"

#include <cuda.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace sluice::server {

class Completer {
 public:
  using Action =
      std::function<void(CUresult)>;  ///< gets CUDA_SUCCESS or the error that the work met
  enum class Kind { kData, kAnswer };
  /// `flush` sends what the actions produced.
  Completer(const DriverTable& driver, std::function<void()> flush)
      : driver_(driver), flush_(std::move(flush)) {}
  ~Completer() { stop(); }
  Completer(const Completer&) = delete;
  Completer& operator=(const Completer&) = delete;

  /// Decode thread. Records an event of `context` (current) in each stream and adds the item; runs
  /// it at once if the work is done and nothing older waits. A failure to record becomes the item's
  /// result.
  void add(CUcontext context, const std::vector<CUstream>& streams, Kind kind, Action action);
  /// The context is being destroyed (its events with it) / a new one may have got its address.
  void forget(CUcontext context);
  void remember(CUcontext context);
  /// Number of items not yet acted on.
  [[nodiscard]] std::size_t outstanding() const { return count_.load(std::memory_order_acquire); }
  /// Drops what is outstanding and ends the thread.
  void stop();

 private:
  struct Item {
    CUcontext context = nullptr;
    std::vector<CUevent> events;
    Kind kind = Kind::kAnswer;
    Action action;
    bool is_ready = false;
    CUresult result = CUDA_SUCCESS;
  };

  CUresult record(CUcontext context, CUstream stream, CUevent* out);
  void poll(Item& item);
  void finish(Item& item);
  /// One sweep over the items in decode order; true if any was acted on.
  bool sweep();
  void run();

  const DriverTable& driver_;
  std::function<void()> flush_;
  std::mutex sweep_mutex_;  ///< held while actions run: keeps their order
  std::mutex mutex_;        ///< guards incoming_, events_, is_stopping_
  std::condition_variable changed_;
  std::deque<Item> incoming_;
  std::deque<Item> items_;  ///< guarded by sweep_mutex_
  std::vector<std::pair<CUcontext, CUevent>> events_;
  std::vector<CUcontext> dead_;
  std::atomic<std::size_t> count_{0};
  bool is_stopping_ = false;
  std::thread thread_;
};

}  // namespace sluice::server
