// What this process's calls cost, for `sluice run --stats`: one JSON line appended to
// SLUICE_STATS_FILE at the end.
#pragma once

#include "shim/process.h"

namespace sluice::shim {

/// Nothing without SLUICE_STATS_FILE; a file that cannot be written is one log line.
void write_stats(const Process& process, Session& session) noexcept;

}  // namespace sluice::shim
