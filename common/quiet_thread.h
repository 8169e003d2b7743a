// Threads of ours inside other people's programs: the application's signals are the application's,
// so no thread of ours may take one.
#pragma once

#include "common/result.h"

#include <pthread.h>

namespace sluice {

/// Starts `run(self)` on a thread that blocks all signals; whoever calls this joins it. `name` has
/// at most 15 characters.
Result<pthread_t> start_quiet_thread(const char* name, void* (*run)(void*), void* self);

}  // namespace sluice
