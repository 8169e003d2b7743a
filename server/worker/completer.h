// Answers what has to wait for the device, so that the decode thread never does. An item is a set
// of events recorded behind the work and an action. Items of one stream, and the context-wide items
// of one context, become ready in their order; others in any. Before the action of an answer runs,
// the actions of everything that was decoded earlier and was complete by then have run, the data of
// copies first: a client that sees one completion sees all that it implies.
#pragma once

#include "driver/driver_table.h"
#include "server/worker/streams.h"

#include <cuda.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <thread>
#include <utility>
#include <vector>

namespace sluice::server {

class Completer {
 public:
  /// Gets CUDA_SUCCESS or the error that the work met. Answers run with the item's context current.
  using Action = std::function<void(CUresult)>;
  enum class Kind { kData, kAnswer };
  /// `before` runs before the actions, when their work has completed; `flush` sends what they
  /// produced.
  Completer(const DriverTable& driver, std::function<void()> before, std::function<void()> flush)
      : driver_(driver), before_(std::move(before)), flush_(std::move(flush)) {}
  ~Completer() { stop(); }
  Completer(const Completer&) = delete;
  Completer& operator=(const Completer&) = delete;

  /// The driver shall write what kernels printed before the actions run. Before the first item.
  void flush_prints() { flushes_prints_ = true; }

  /// Decode thread, with `context` current. Records an event in each stream and adds the item; acts
  /// before it returns if the work is done. A failure to record becomes the item's result. The
  /// streams' commands so far are marked complete before the action runs. With a `patience` the
  /// action takes the context away: after that time it runs all the same, and whatever else waits
  /// for these streams has its answer, CUDA_ERROR_CONTEXT_IS_DESTROYED.
  enum class Scope { kStream, kContext };
  using Patience = std::optional<std::chrono::milliseconds>;
  void add(CUcontext context, std::span<const StreamRef> streams, Scope scope, Kind kind,
           Action action, Patience patience = {});
  /// Decode thread, after `event` of the client was recorded in `stream`: its item is complete as
  /// soon as that event is, too. An item's own event is recorded behind it, and whoever waited for
  /// the client's event may be answered between the two.
  void add_record(const StreamRef& stream, CUevent event, Action action);
  /// Decode thread, before an event of the client is recorded or destroyed: what it says from here
  /// on is not about its earlier record.
  void forget_record(CUevent event);
  /// Any thread: runs `action` on the completer's thread once the data of complete copies has been
  /// sent.
  void post(Action action);

  /// The context is being destroyed (its events with it) / a new one may have got its address.
  void forget(CUcontext context);
  void remember(CUcontext context);
  /// Number of items not yet acted on.
  [[nodiscard]] std::size_t outstanding() const { return count_.load(std::memory_order_acquire); }
  /// Drops what is outstanding and ends the thread.
  void stop();

 private:
  struct Wait {
    StreamRef state;
    std::uint64_t issued = 0;
    CUevent event = nullptr;
  };
  struct Item {
    CUcontext context = nullptr;
    const void* chain = nullptr;  ///< with `context`: items that become ready in order
    std::vector<Wait> waits;
    std::size_t done = 0;        ///< waits that are over
    CUevent recorded = nullptr;  ///< of add_record()
    Kind kind = Kind::kAnswer;
    Action action;
    bool is_ready = false;
    CUresult result = CUDA_SUCCESS;
    std::uint64_t order = 0;
    std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
  };
  using ItemRef = std::unique_ptr<Item>;
  using Items = std::vector<ItemRef>;

  CUresult record(CUcontext context, CUstream stream, CUevent* out);
  void start(ItemRef item, std::span<const StreamRef> streams);
  void poll(Item& item);
  /// What the client's event says about its item: CUDA_ERROR_NOT_READY if nothing any more.
  CUresult query_record(const Item& item);
  static void give_up_if_due(const Item& item);
  void finish(Item& item);
  void show_prints(const Item& item);
  void enqueue(ItemRef item);
  void take_incoming();
  void enter(CUcontext context);
  /// Moves what has become ready out of the chains; true if there was an answer.
  bool drain(Items* data, Items* answers);
  /// sweep_mutex_ is held. True if something was acted on.
  bool sweep();
  void run();

  const DriverTable& driver_;
  std::function<void()> before_;
  bool flushes_prints_ = false;
  std::function<void()> flush_;
  std::mutex mutex_;  ///< guards what follows
  std::condition_variable changed_;
  std::deque<ItemRef> incoming_;
  std::map<CUcontext, std::vector<CUevent>> events_;  ///< idle ones
  std::set<CUcontext> dead_;
  bool is_stopping_ = false;
  std::thread thread_;

  /// Whose record an event of the client last was. Held while such an event is queried.
  std::mutex records_mutex_;
  std::map<CUevent, const Item*> records_;

  std::mutex
      sweep_mutex_;  ///< keeps the order of actions; taken before mutex_; guards what follows
  std::map<std::pair<CUcontext, const void*>, std::deque<ItemRef>> chains_;
  std::uint64_t last_order_ = 0;
  CUcontext entered_ = nullptr;  ///< current on the sweeping thread, as far as this sweep knows
  bool is_entered_ = false;

  std::atomic<std::size_t> count_{0};
};

}  // namespace sluice::server
