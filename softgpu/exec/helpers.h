// Functions that compiled kernels call. Arithmetic (directed rounding, approximate functions, bit
// fields) is in helpers.cpp; calls.cpp has what needs the running block: printf,
// malloc, traps, frames of coroutines.
#pragma once

#include <span>

namespace sluice::softgpu {

struct Helper {
  const char* name;
  void* address;
};
/// Every helper by the symbol name that lower/ uses.
std::span<const Helper> helpers();
std::span<const Helper> call_helpers();
std::span<const Helper> half_atomic_helpers();

}  // namespace sluice::softgpu
