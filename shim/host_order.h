// Which host functions precede a command in stream order. Copies out of pinned memory are read
// here, when they are issued: they must not be read before host functions that precede them have
// written what is copied. Functions of other streams do not hold a copy back, or two streams that
// wait for each other's work would wait for ever.
#pragma once

#include "shim/objects.h"

#include <cstdint>

namespace sluice::shim {

/// The function is now the stream's last command.
void note_host_function(Stream& stream, std::uint64_t token);
/// A record of the event behind the stream's commands; the stream waits for the event.
void pass_on_host_functions(Stream& stream, Event& event);
void join_host_functions(Stream& stream, Event& event);
/// Waits until all that precede the stream's next command have run.
CUresult settle_host_functions(Stream& stream);

}  // namespace sluice::shim
