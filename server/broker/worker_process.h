// Starting sluice-worker processes, a few of them ahead of time.
#pragma once

#include "common/fd.h"
#include "common/result.h"

#include <sys/types.h>

#include <string>

namespace sluice::server {

/// A running worker that has been told nothing yet. Killed when this is destroyed, unless released.
struct WorkerProcess {
  pid_t pid = -1;
  Fd pidfd;
  Fd link;
};

/// `executable` is the path of sluice-worker. The child has the link as descriptor 3 and nothing
/// else of ours, a small environment, and dies with the broker.
Result<WorkerProcess> start_worker(const std::string& executable);

}  // namespace sluice::server
