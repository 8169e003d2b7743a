// What became of the choices that a handshake made, for `sluice doctor`: a program sees none of it.
// protocol/session_report.h describes what the tool reads.
#pragma once

#include "shim/process.h"

#include <string>

namespace sluice::shim {

/// A transport that was given up, and why. Thread-safe.
void note_not_used(const char* transport, const std::string& why);
/// Why cuInit made no session. Thread-safe.
void note_no_session(const std::string& why);

/// `session` may be null.
std::string session_report(Session* session);

}  // namespace sluice::shim
