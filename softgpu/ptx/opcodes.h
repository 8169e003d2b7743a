// The instructions that the PTX ISA documents. A name that is not here is a syntax error; one that is here but not lowered
// makes its kernel unsupported when it is launched.
#pragma once

#include <string_view>

namespace sluice::softgpu::ptx {

bool is_documented_opcode(std::string_view name);

}  // namespace sluice::softgpu::ptx
