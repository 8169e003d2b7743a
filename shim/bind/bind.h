// Redirects a CUDA runtime that is linked statically into an object (the default of nvcc) to our
// own: every entry of it becomes a jump to the function of the same name and CUDA version of ours.
// All of an object's names are bound, or none: half a foreign runtime is worse than a whole one.
#pragma once

#include "common/result.h"
#include "shim/cudart/entries.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace sluice::bind {

/// mov r11, imm64; jmp r11: reaches any address, and r11 carries nothing at a function's entry.
inline constexpr std::size_t kJumpBytes = 13;

struct Entry {
  std::uint64_t address;  ///< as in the file
  void* target;
};

/// What there is to do for an object: nothing (no entries), or these.
struct Plan {
  int major = 0;  ///< the CUDA version of the static runtime
  std::vector<Entry> entries;
};

/// A static runtime that could be found: by its names, in an object that has not lost them.
bool has_static_runtime(const std::string& path);

/// Reads the file. An error says why an object that does contain a static runtime cannot be bound;
/// objects without one give an empty plan.
Result<Plan> plan_binding(const std::string& path, const cudart::RuntimeTable& runtime);

/// Writes the jumps into the loaded object; `load_base` is what its addresses are relative to. No
/// other thread may be running its code.
Status apply_binding(std::uintptr_t load_base, const Plan& plan);

/// Both, and tells our runtime whom it stands in for.
Status bind_object(const std::string& path, std::uintptr_t load_base,
                   const cudart::RuntimeTable& runtime);

}  // namespace sluice::bind
