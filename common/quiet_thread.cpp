#include "common/quiet_thread.h"

#include <csignal>

namespace sluice {

Result<pthread_t> start_quiet_thread(const char* name, void* (*run)(void*), void* self) {
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread{};
  const int error = ::pthread_create(&thread, nullptr, run, self);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (error != 0) return fail(system_error("starting a thread", error));
  ::pthread_setname_np(thread, name);
  return thread;
}

}  // namespace sluice
