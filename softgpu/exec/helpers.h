// Functions that compiled kernels call: directed rounding, approximate functions, bit fields,
// traps.
#pragma once

#include <span>

namespace sluice::softgpu {

struct Helper {
  const char* name;
  void* address;
};
/// Every helper by the symbol name that lower/ uses.
std::span<const Helper> helpers();

}  // namespace sluice::softgpu
