#include "softgpu/exec/fault.h"

#include <sys/mman.h>

#include <cfenv>
#include <csetjmp>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <mutex>

#ifdef __SANITIZE_THREAD__
extern "C" int __sigaction(int, const struct sigaction*, struct sigaction*);  // the C library's own
#endif

namespace sluice::softgpu {
namespace {

/// ThreadSanitizer's sigaction() blocks every signal while a handler runs, and a handler that jumps
/// out leaves them blocked; a signal from another thread it keeps back until the next system call,
/// which an endless kernel never makes.
int set_action(int number, const struct sigaction* action, struct sigaction* previous) {
#ifdef __SANITIZE_THREAD__
  return __sigaction(number, action, previous);
#else
  return sigaction(number, action, previous);
#endif
}

constexpr std::size_t kSignalStackBytes = 64 * 1024;

/// What the handler needs of the thread that is inside a kernel. Plain data: it is written by a
/// signal handler.
struct ThreadState {
  volatile bool is_inside;
  volatile int uninterrupted;  ///< scopes that forbid an interruption
  const std::atomic<bool>* volatile is_stopped;
  sigjmp_buf back;
  LaunchOutcome outcome;
  char detail[512];
};
thread_local ThreadState t_state;

struct sigaction g_previous_segv, g_previous_bus;

void chain(int number, siginfo_t* info, void* context) {
  const struct sigaction& previous = number == SIGSEGV ? g_previous_segv : g_previous_bus;
  if ((previous.sa_flags & SA_SIGINFO) != 0) return previous.sa_sigaction(number, info, context);
  if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN)
    return previous.sa_handler(number);
  // Sent with kill() and the like: nothing would repeat it after our return.
  const bool is_sent = info->si_code <= 0;
  if (is_sent && previous.sa_handler == SIG_IGN) return;
  signal(number, SIG_DFL);  // returning repeats the fault, which then ends the process as it would
                            // have without us
  if (is_sent) raise(number);
}

void on_fault(int number, siginfo_t* info, void* context) {
  ThreadState& state = t_state;
  if (!state.is_inside) return chain(number, info, context);
  state.outcome = LaunchOutcome::kIllegalAddress;
  std::snprintf(state.detail, sizeof state.detail, "access to address %p", info->si_addr);
  siglongjmp(state.back, 1);
}

/// Which of the real-time signals; the first ones are taken by the C library and by Valgrind.
int interrupt_signal() {
  return SIGRTMIN + 9;
}

void on_interrupt(int, siginfo_t*, void*) {
  ThreadState& state = t_state;
  if (!state.is_inside || state.uninterrupted != 0 || state.is_stopped == nullptr ||
      !state.is_stopped->load())
    return;
  state.outcome = LaunchOutcome::kCancelled;
  std::strcpy(state.detail, "cancelled");
  siglongjmp(state.back, 1);
}

void install() {
  struct sigaction action {};
  action.sa_sigaction = on_interrupt;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER | SA_RESTART;
  sigemptyset(&action.sa_mask);
  set_action(interrupt_signal(), &action, nullptr);
  action = {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  sigemptyset(&action.sa_mask);
  set_action(SIGSEGV, &action, &g_previous_segv);
  set_action(SIGBUS, &action, &g_previous_bus);
}

/// The thread's own alternate stack, kept if it already has one.
class SignalStack {
 public:
  SignalStack() {
    stack_t current{};
    if (sigaltstack(nullptr, &current) == 0 && (current.ss_flags & SS_DISABLE) == 0) return;
    memory_ = mmap(nullptr, kSignalStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                   -1, 0);
    if (memory_ == MAP_FAILED) return;
    stack_t stack{};
    stack.ss_sp = memory_;
    stack.ss_size = kSignalStackBytes;
    sigaltstack(&stack, nullptr);
  }
  ~SignalStack() {
    if (memory_ == nullptr || memory_ == MAP_FAILED) return;
    stack_t stack{};
    stack.ss_flags = SS_DISABLE;
    sigaltstack(&stack, nullptr);
    munmap(memory_, kSignalStackBytes);
  }
  SignalStack(const SignalStack&) = delete;
  SignalStack& operator=(const SignalStack&) = delete;

 private:
  void* memory_ = nullptr;
};

void install_once() {
  static std::once_flag once;
  std::call_once(once, install);
}

}  // namespace

KernelFault run_guarded(void (*block)(void*), void* context) {
  install_once();
  thread_local SignalStack stack;
  static_cast<void>(stack);
  ThreadState& state = t_state;
  if (sigsetjmp(state.back, 0) != 0) {
    state.is_inside = false;
    state.uninterrupted = 0;        // a fault may leave such a scope
    std::fesetround(FE_TONEAREST);  // the jump may come from a helper that rounds otherwise
    return {state.outcome, state.detail};
  }
  state.is_inside = true;
  block(context);
  state.is_inside = false;
  return {};
}

void leave_kernel(LaunchOutcome outcome, const char* detail) {
  ThreadState& state = t_state;
  state.outcome = outcome;
  state.detail[sizeof state.detail - 1] = '\0';
  std::strncpy(state.detail, detail, sizeof state.detail - 1);
  siglongjmp(state.back, 1);
}

void allow_interruption(const std::atomic<bool>* is_stopped) {
  install_once();
  t_state.is_stopped = is_stopped;
  sigset_t wanted;
  sigemptyset(&wanted);
  sigaddset(&wanted, interrupt_signal());
  pthread_sigmask(is_stopped != nullptr ? SIG_UNBLOCK : SIG_BLOCK, &wanted, nullptr);
}

void interrupt_kernel(pthread_t thread) {
  pthread_kill(thread, interrupt_signal());
}

UninterruptedScope::UninterruptedScope() {
  t_state.uninterrupted = t_state.uninterrupted + 1;
}
UninterruptedScope::~UninterruptedScope() {
  t_state.uninterrupted = t_state.uninterrupted - 1;
}

}  // namespace sluice::softgpu
