// Where in the program the waits for the server come from: collected only when statistics are asked
// for, because it takes a walk up the stack.
#pragma once

#include "protocol/functions.h"

#include <cstdint>
#include <string>
#include <vector>

namespace sluice::shim {

struct CallSite {
  wire::Fn fn{};
  std::string place;  ///< "program(function+0x12)", or an address
  std::uint64_t count = 0, waited_ns = 0;
};

/// Off by default. Thread-safe, as all below.
void enable_call_sites() noexcept;
/// The calling thread's function has waited; notes the innermost place outside of our libraries.
void note_call_site(wire::Fn fn, std::uint64_t waited_ns) noexcept;
/// The sites that waited longest, longest first.
std::vector<CallSite> worst_call_sites(std::size_t count);

}  // namespace sluice::shim
