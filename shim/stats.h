// What this process's calls cost. SLUICE_STATS: a table at the end of the process, on stderr or in
// a file (JSON if its name ends with .json; %p is the process's number). SLUICE_STATS_FILE: one
// JSON line, appended, for `sluice run --stats`.
#pragma once

#include "shim/process.h"

#include <string>

namespace sluice::shim {

/// Looks at the environment; before the first call is counted.
void prepare_stats() noexcept;
/// Nothing without either variable; a file that cannot be written is one log line.
void write_stats(const Process& process, Session& session) noexcept;

std::string stats_json(const Process& process, Session& session);
std::string stats_table(const Process& process, Session& session);

}  // namespace sluice::shim
