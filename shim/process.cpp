#include "shim/process.h"

#include "common/log.h"
#include "shim/session_report.h"
#include "shim/stats.h"

#include <pthread.h>

#include <cstdlib>
#include <new>
#include <string>

namespace sluice::shim {
namespace {

constinit Process g_process;
std::atomic<bool> g_is_initialising{false};

void after_fork_in_child() {
  // Only atomics and close(2): other threads of the parent may have held any lock.
  Process& p = process();
  if (p.phase.load() != Phase::kReady && !g_is_initialising.load()) return;
  p.phase.store(Phase::kForked);
  if (Session* parents = p.session.load()) parents->pipeline().abandon_in_child();
}

void register_fork_handler() {
  static const int registered = ::pthread_atfork(nullptr, nullptr, &after_fork_in_child);
  if (registered != 0)
    SLUICE_LOG_WARN("session", "fork() cannot be watched: a child must not use CUDA");
}

/// One line for each cause: programs that probe for CUDA call cuInit again and again.
void report_once(const std::string& message) {
  static std::string* const last = new std::string;
  if (*last == message) return;
  *last = message;
  SLUICE_LOG_WARN("session", "{}", message);
}

CUresult start_session(Process& p) {
  auto connection = connect();
  if (!connection) {
    report_once(connection.error().message);
    note_no_session(connection.error().message);
    return connection.error().code == ErrorCode::kNotFound &&
                   std::getenv("SLUICE_SERVER") == nullptr
               ? CUDA_ERROR_NO_DEVICE
               : CUDA_ERROR_SYSTEM_NOT_READY;
  }
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  const char* strict = std::getenv("SLUICE_STRICT");
  std::optional<std::string_view> list;
  if (visible != nullptr) list = visible;
  const bool is_strict = strict != nullptr && *strict == '1';
  prepare_stats();
  // Leaked at exit: calls may still come in while the process ends.
  auto* made = new (std::nothrow) Session(std::move(*connection), list, is_strict);
  if (made == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  SLUICE_LOG_INFO("session", "Connected to {} (session={} worker_pid={} devices={})",
                  made->server(), made->welcome().session_id, made->welcome().worker_pid,
                  made->devices().count());
  p.session.store(made, std::memory_order_release);
  p.phase.store(Phase::kReady, std::memory_order_release);
  return CUDA_SUCCESS;
}

pthread_key_t g_thread_key;
thread_local ThreadState* t_state = nullptr;

void end_thread(void* state) {
  auto* ending = static_cast<ThreadState*>(state);
  if (process().phase.load() == Phase::kReady) {
    for (Stream* stream : ending->own_streams) release_own_stream(*stream);
  }
  delete ending;
  t_state = nullptr;
}

}  // namespace

Process& process() noexcept {
  return g_process;
}

ThreadState& thread_state() noexcept {
  if (t_state != nullptr) return *t_state;
  static const bool has_key = ::pthread_key_create(&g_thread_key, &end_thread) == 0;
  t_state = new ThreadState;
  if (has_key) ::pthread_setspecific(g_thread_key, t_state);
  return *t_state;
}

CUresult initialise() noexcept {
  Process& p = process();
  switch (p.phase.load(std::memory_order_acquire)) {
    case Phase::kReady:
      return session().devices().count() > 0 ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
    case Phase::kForked:
      return CUDA_ERROR_NOT_INITIALIZED;
    case Phase::kTornDown:
      return CUDA_ERROR_DEINITIALIZED;
    case Phase::kFresh:
      break;
  }
  register_fork_handler();
  std::lock_guard lock(p.init_mutex);
  if (p.phase.load() == Phase::kFresh) {
    static const bool has_log = (log_open_from_environment("shim", LogLevel::kWarn), true);
    (void)has_log;
    g_is_initialising = true;
    const CUresult result = start_session(p);
    g_is_initialising = false;
    if (result != CUDA_SUCCESS) return result;
  }
  return session().devices().count() > 0 ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
}

void tear_down() noexcept {
  constexpr std::chrono::milliseconds kGoodbyeLimit{200};
  Process& p = process();
  if (p.phase.exchange(Phase::kTornDown) != Phase::kReady) return;
  session().pipeline().finish(kGoodbyeLimit);
  write_stats(p, session());
}

void reset_for_test() {
  Process& p = process();
  p.phase.store(Phase::kFresh);
  Session* ended = p.session.exchange(nullptr);
  if (t_state != nullptr) *t_state = ThreadState{};
  if (ended == nullptr) return;
  handles().clear([](Kind, const Entry&) {});
  delete ended;
}

namespace {

/// Calls that may wait for the device without being asked to: prohibited while captures are under
/// way that do not allow it (cuStreamBeginCapture, CUstreamCaptureMode).
bool is_unsafe_in_capture(wire::Fn fn) {
  switch (fn) {
    case wire::Fn::cuMemAlloc_v2:
    case wire::Fn::cuMemAllocPitch_v2:
    case wire::Fn::cuMemFree_v2:
    case wire::Fn::cuMemHostAlloc:
    case wire::Fn::cuMemAllocHost_v2:
    case wire::Fn::cuMemFreeHost:
    case wire::Fn::cuMemHostRegister_v2:
    case wire::Fn::cuMemHostUnregister:
    case wire::Fn::cuMemCreate:
    case wire::Fn::cuMemUnmap:
    case wire::Fn::cuEventQuery:
    case wire::Fn::cuEventSynchronize:
      return true;
    default:
      return false;
  }
}

}  // namespace

CUresult enter_needing(wire::Fn fn, wire::Needs needs) noexcept {
  ThreadState& thread = thread_state();
  thread.fn = fn;
  Process& p = process();
  p.functions[static_cast<std::size_t>(fn)].calls.fetch_add(1, std::memory_order_relaxed);
  if (log_enabled(LogLevel::kTrace)) SLUICE_LOG_TRACE("shim", "{}", wire::fn_name(fn));
  if (needs == wire::Needs::kNothing) return CUDA_SUCCESS;
  switch (p.phase.load(std::memory_order_acquire)) {
    case Phase::kReady:
      break;
    case Phase::kFresh:
      return CUDA_ERROR_NOT_INITIALIZED;
    case Phase::kForked:
      return CUDA_ERROR_NOT_INITIALIZED;
    case Phase::kTornDown:
      return CUDA_ERROR_DEINITIALIZED;
  }
  if (is_unsafe_in_capture(fn)) {
    if (const CUresult refused = session().captures().refuse_unsafe(thread.capture_mode))
      return refused;
  }
  if (needs == wire::Needs::kInit) return CUDA_SUCCESS;
  const Context* context = thread.contexts.empty() ? nullptr : thread.contexts.back();
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (!context->is_alive.load(std::memory_order_relaxed)) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  Session& current = session();
  if (current.pipeline().is_lost()) return kSessionLost;
  return static_cast<CUresult>(context->sticky.load(std::memory_order_relaxed));
}

CUresult enter(wire::Fn fn) noexcept {
  const wire::Needs needs = wire::fn_needs(fn);
  const CUresult refused = enter_needing(fn, needs);
  if (refused != CUDA_SUCCESS || needs != wire::Needs::kContext) return refused;
  const wire::Class travels = wire::fn_class(fn);
  if (travels != wire::Class::kPosted && travels != wire::Class::kCalled) return CUDA_SUCCESS;
  return session().deferred().take();
}

}  // namespace sluice::shim

namespace {
// After every atexit handler and destructor of the program: what they still call is served.
[[gnu::destructor]] void on_unload() {
  sluice::shim::tear_down();
}
}  // namespace
