// Redirects a CUDA runtime that is linked statically into an object (the default of nvcc) to our
// own: every entry of it becomes a jump to the function of the same name in libcudart. All of an
// object's names are bound, or none: half a foreign runtime is worse than a whole one.
#pragma once

#include "common/result.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace sluice::bind {

/// mov r11, imm64; jmp r11: reaches any address, and r11 carries nothing at a function's entry.
inline constexpr std::size_t kJumpBytes = 13;

struct Object {
  std::string path;          ///< the file
  std::uintptr_t load_base;  ///< what its addresses are relative to
};

/// Our function of that name, null if we have none.
using FindTarget = std::function<void*(const char* name)>;

struct Entry {
  std::uint64_t address;  ///< as in the file
  void* target;
};

/// What there is to do for an object: nothing (empty), or these entries.
using Plan = std::vector<Entry>;

/// Reads the file. An error says why an object that does contain a static runtime cannot be bound;
/// objects without one give an empty plan.
Result<Plan> plan_binding(const std::string& path, const FindTarget& find_target);

/// Writes the jumps into the loaded object. No other thread may be running its code.
Status apply_binding(std::uintptr_t load_base, const Plan& plan);

/// Both. The number of redirected functions.
Result<std::size_t> bind_static_runtime(const Object& object, const FindTarget& find_target);

}  // namespace sluice::bind
