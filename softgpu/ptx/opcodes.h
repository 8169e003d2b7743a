// The instructions that the PTX ISA documents. A name that is not here is a syntax error; one that
// is here but not lowered, or a modifier that lower/ does not know for it, makes its kernel
// unsupported when it is launched.
#pragma once

#include <cstdint>
#include <string_view>

namespace sluice::softgpu::ptx {

struct Opcode {
  std::string_view name;
  bool is_lowered = false;
  std::uint8_t operands_min = 0, operands_max = 0;
  std::string_view modifiers;  ///< those that are lowered, besides type names; between blanks;
                               ///< "L1::" stands for a prefix
  [[nodiscard]] bool accepts(std::string_view modifier) const;
};

/// nullptr for names that the ISA does not have.
const Opcode* find_opcode(std::string_view name);

}  // namespace sluice::softgpu::ptx
