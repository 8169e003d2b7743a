// The state of this process and of each of its threads: whether cuInit was called, the session, the
// stack of contexts. The one place with globals, because the driver API has no argument for them.
#pragma once

#include "protocol/functions.h"
#include "shim/handles.h"
#include "shim/session.h"

#include <array>
#include <atomic>
#include <chrono>
#include <vector>

namespace sluice::shim {

enum class Phase : std::uint8_t {
  kFresh,  ///< cuInit was not called, or failed
  kReady,
  kForked,    ///< a child of a process that had initialised: CUDA's answer is NOT_INITIALIZED for
              ///< good
  kTornDown,  ///< the library's destructor has run
};

struct FunctionCount {
  std::atomic<std::uint64_t> calls{0}, round_trips{0}, waited_ns{0}, bytes{0};
};

struct Process {
  std::atomic<Phase> phase{Phase::kFresh};
  std::atomic<Session*> session{nullptr};
  std::mutex init_mutex;
  std::array<FunctionCount, wire::kFnCount> functions;
};
Process& process() noexcept;

/// Valid once enter() succeeded.
inline Session& session() noexcept {
  return *process().session.load(std::memory_order_acquire);
}

/// Confined to its thread.
struct ThreadState {
  std::vector<Context*> contexts;  ///< the stack, top last
  int per_thread_depth = 0;        ///< PerThreadDefaultStream objects alive
  CUstreamCaptureMode capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  wire::Fn fn{};                     ///< the call being made, for statistics and the trace
  std::vector<Stream*> own_streams;  ///< CU_STREAM_PER_THREAD of each context used
};
ThreadState& thread_state() noexcept;

/// Top of the calling thread's stack or null; may be destroyed.
inline Context* current_context() noexcept {
  const auto& stack = thread_state().contexts;
  return stack.empty() ? nullptr : stack.back();
}
inline std::uint32_t current_context_id() noexcept {
  const Context* context = current_context();
  return context != nullptr ? context->wire_id.load(std::memory_order_relaxed) : 0;
}

inline FunctionCount& current_count() noexcept {
  return process().functions[static_cast<std::size_t>(thread_state().fn)];
}
/// Counts bytes that go over the wire for the calling thread's function.
inline void count_bytes(std::size_t bytes) noexcept {
  current_count().bytes.fetch_add(bytes, std::memory_order_relaxed);
}

/// A wait for the server, on the account of the calling thread's function and, with statistics, of
/// the place in the program that called it.
class WaitScope {
 public:
  WaitScope() noexcept : start_(std::chrono::steady_clock::now()) {}
  ~WaitScope();
  WaitScope(const WaitScope&) = delete;
  WaitScope& operator=(const WaitScope&) = delete;

 private:
  std::chrono::steady_clock::time_point start_;
};

/// enter() for functions whose requirement is known better here than in the table.
CUresult enter_needing(wire::Fn fn, wire::Needs needs) noexcept;

/// cuInit's work. Thread-safe; once successful, later calls return at once.
CUresult initialise() noexcept;
/// Ends the session in an orderly way if it can be done quickly; calls return
/// `CUDA_ERROR_DEINITIALIZED` afterwards.
void tear_down() noexcept;
/// Back to kFresh, everything freed. No other thread may be inside the shim.
void reset_for_test();

/// The stream that a handle stands for, counted as used; as to_wire<CUstream>.
CUresult use_stream(CUstream handle, Stream** stream) noexcept;
/// The same for records of and waits for events, which make no node of a captured graph.
CUresult use_stream_for_event(CUstream handle, Stream** stream) noexcept;
/// The same without counting, for questions about a stream.
CUresult find_stream(CUstream handle, Stream** stream) noexcept;

/// An object for a stream or event of the current context that the worker knows by `id`.
Stream* make_stream(std::uint64_t id, unsigned flags, int priority);
Event* make_event(std::uint64_t id);
/// Ends the hidden stream of a thread that ends.
void release_own_stream(Stream& stream) noexcept;
/// Forgets what the shim keeps behind a handle.
void drop_object(Kind kind, const Entry& entry);

/// Reports a deferred failure instead of success: for calls that have just waited for the failed
/// work.
inline CUresult or_deferred(CUresult result) noexcept {
  return result == CUDA_SUCCESS ? session().deferred().take() : result;
}

/// call() of something that takes device memory beside the arenas: what these keep makes room.
template <class Args>
CUresult call_with_spare(const Args& args, typename Args::Reply& reply) noexcept {
  const CUresult result = call(args, reply);
  if (result != CUDA_ERROR_OUT_OF_MEMORY || !session().memory().give_back_spare()) return result;
  return call(args, reply);
}

}  // namespace sluice::shim
