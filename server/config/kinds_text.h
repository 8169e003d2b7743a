// How memory by kind is shown to people.
#pragma once

#include "server/memory_kind.h"

#include <string>

namespace sluice::config {

/// "data 30 MiB, module 2 MiB"; "-" if there is none.
std::string kinds_text(const server::MemoryByKind& kinds);

}  // namespace sluice::config
