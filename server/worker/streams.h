// Which streams have work that is not known to be complete: a context-wide wait covers exactly
// these, so that an idle stream costs nothing and the legacy stream, whose every command waits for
// other streams, is left alone.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

namespace sluice::server {

/// Confined to the decode thread, but for complete() and is_given_up.
struct StreamState {
  CUcontext context = nullptr;
  CUstream stream = nullptr;                ///< null = the legacy stream of the context
  std::uint64_t issued = 0;                 ///< commands so far
  std::atomic<std::uint64_t> completed{0};  ///< of these, known to be complete
  /// Its context is taken away under its work; nobody asks for its events any more.
  std::atomic<bool> is_given_up{false};
  bool is_listed = false;   ///< in the list of busy streams
  bool is_retired = false;  ///< the client destroyed it
  bool is_blocking = true;  ///< the legacy stream waits for it
  /// While > 0 nothing of ours may be recorded in it: it captures, or (the legacy stream) would
  /// have to wait for streams that do. Nothing is issued in it meanwhile.
  unsigned captures = 0;
  CUstream capture_origin = nullptr;  ///< where its capture began

  [[nodiscard]] bool is_busy() const { return completed.load(std::memory_order_acquire) < issued; }
  /// The first `count` commands are complete; any thread.
  void complete(std::uint64_t count) {
    std::uint64_t known = completed.load(std::memory_order_relaxed);
    while (known < count &&
           !completed.compare_exchange_weak(known, count, std::memory_order_release)) {
    }
  }
};
using StreamRef = std::shared_ptr<StreamState>;

/// Confined to the decode thread.
class StreamTable {
 public:
  void add(CUcontext context, CUstream stream, bool is_blocking);
  /// The stream takes part in the capture that began in `origin`; its earlier work has been given a
  /// completion.
  void begin_capture(const StreamRef& state, CUstream origin);
  /// That capture is over.
  void end_capture(CUstream origin);
  /// The state of a stream; `current` says whose legacy stream null is.
  StreamRef find(CUcontext current, CUstream stream);
  /// No more than one stream was ever used or made.
  [[nodiscard]] bool is_single() const { return named_.size() + legacy_.size() <= 1; }
  /// A command is about to be issued.
  void note_work(const StreamRef& state);
  /// Streams of the context with work that is not known to be complete.
  std::vector<StreamRef> busy(CUcontext context);
  /// Destroyed by the client: waits still cover its work; take_finished() gives it when that is
  /// complete.
  void retire(const StreamRef& state);
  std::vector<StreamRef> take_finished();
  /// The context is gone, and its streams with it.
  void forget(CUcontext context);

 private:
  std::unordered_map<CUstream, StreamRef> named_;
  std::map<CUcontext, StreamRef> legacy_;
  std::map<CUcontext, std::vector<StreamRef>> busy_;
  std::vector<StreamRef> retired_;
};

}  // namespace sluice::server
