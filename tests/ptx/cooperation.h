// Kernels of the tests about threads that wait for one another: `out` in %d0, `other` in %d1, the
// thread's index in %r0 and the address of its word of `out` in %d2.
#pragma once

#include "tests/ptx/harness.h"

namespace sluice::softgpu::test {

inline std::string cooperating_kernel(const std::string& body, const std::string& before = "") {
  return kHeader + before +
         ".visible .entry k(.param .u64 out, .param .u64 other) {\n.reg .b64 %d<12>; .reg .b32 "
         "%r<24>; .reg .pred %p<8>; .reg .b16 %h<4>;\n"
         "ld.param.u64 %d0, [out]; ld.param.u64 %d1, [other];\nmov.u32 %r0, %tid.x;\n"
         "mul.wide.u32 %d2, %r0, 4; add.u64 %d2, %d0, %d2;\n" +
         body + "\nret;\n}\n";
}

/// Adds a failure if ptxas is there and refuses the text.
void expect_ptxas_accepts(const std::string& ptx, const std::string& architecture = "sm_90");

}  // namespace sluice::softgpu::test
