// Which functions a kernel may run: those that it names, and behind calls through pointers all
// those whose address the module takes anywhere and whose parameters fit.
#pragma once

#include "softgpu/ptx/ast.h"

#include <vector>

namespace sluice::softgpu::lower {

struct Parsed {
  const ptx::Function* function;
  ptx::Body body;
};

/// The kernel and every function that it can reach.
std::vector<Parsed> reachable(const ptx::Module& module, const ptx::Function& kernel);

/// Sizes of the results and of the parameters. A call through a pointer reaches functions of its
/// own signature only: others would read parameters that are not there.
struct Signature {
  std::vector<std::size_t> returns_bytes, params_bytes;
  bool operator==(const Signature&) const = default;
};
Signature signature_of(const ptx::Function& function);
/// Of what a call in the body of `caller` gives; the lists may be null.
Signature signature_of_call(const ptx::Function& caller, const ptx::Body& body,
                            const ptx::Operand* results, const ptx::Operand* args);

/// Operands of a call: (results), target, (arguments), prototype; all but the target may be
/// missing.
struct CallOperands {
  const ptx::Operand* results = nullptr;
  const ptx::Operand* target = nullptr;
  const ptx::Operand* args = nullptr;
  [[nodiscard]] bool is_indirect() const {
    return target != nullptr && target->kind == ptx::Operand::Kind::kRegister;
  }
};
CallOperands operands_of(const ptx::Instruction& call);

}  // namespace sluice::softgpu::lower
