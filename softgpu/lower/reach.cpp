#include "softgpu/lower/reach.h"

#include "softgpu/ptx/parser.h"

#include <set>

namespace sluice::softgpu::lower {
namespace {

using ptx::Operand;

const ptx::Function* defined_function(const ptx::Module& module, const std::string& name) {
  const auto found = module.function_index.find(name);
  if (found == module.function_index.end()) return nullptr;
  const ptx::Function& f = module.functions[found->second];
  return f.has_body && !f.is_entry ? &f : nullptr;
}

/// Functions that the body calls. Taking a function's address alone reaches nothing.
std::vector<const ptx::Function*> called_functions(const ptx::Module& module, const Parsed& in) {
  std::vector<const ptx::Function*> out;
  for (const ptx::Statement& s : in.body.statements) {
    if (s.is_label || s.instruction.opcode != "call") continue;
    const CallOperands call = operands_of(s.instruction);
    if (call.target == nullptr) continue;
    if (!call.is_indirect()) {
      if (const auto* f = defined_function(module, call.target->symbol)) out.push_back(f);
      continue;
    }
    const Signature wanted = signature_of_call(*in.function, in.body, call.results, call.args);
    for (const std::size_t number : module.pointed_to) {
      const ptx::Function& f = module.functions[number];
      if (f.has_body && !f.is_entry && signature_of(f) == wanted) out.push_back(&f);
    }
  }
  return out;
}

std::vector<std::size_t> sizes_of(const std::vector<ptx::Variable>& variables) {
  std::vector<std::size_t> out;
  for (const ptx::Variable& v : variables) out.push_back(v.size_bytes);
  return out;
}

}  // namespace

CallOperands operands_of(const ptx::Instruction& call) {
  CallOperands out;
  for (const Operand& o : call.operands) {
    if (o.kind == Operand::Kind::kList)
      (out.target == nullptr ? out.results : out.args) = &o;
    else if (out.target == nullptr)
      out.target = &o;
  }
  return out;
}

Signature signature_of(const ptx::Function& function) {
  return {sizes_of(function.returns), sizes_of(function.params)};
}

Signature signature_of_call(const ptx::Function& caller, const ptx::Body& body,
                            const Operand* results, const Operand* args) {
  const auto sizes = [&](const Operand* list) {
    std::vector<std::size_t> out;
    if (list == nullptr) return out;
    for (const Operand& o : list->parts) {
      std::size_t bytes = 0;
      for (const auto* variables : {&body.variables, &caller.params, &caller.returns})
        for (const ptx::Variable& v : *variables)
          if (v.name == o.symbol) bytes = v.size_bytes;
      out.push_back(bytes);
    }
    return out;
  };
  return {sizes(results), sizes(args)};
}

std::vector<Parsed> reachable(const ptx::Module& module, const ptx::Function& kernel) {
  std::vector<Parsed> out;
  std::set<const ptx::Function*> seen = {&kernel};
  std::vector<const ptx::Function*> waiting = {&kernel};
  while (!waiting.empty()) {
    Parsed parsed{waiting.back(), {}};
    waiting.pop_back();
    if (parsed.function->unsupported.empty())                   // else nothing runs that reaches it
      ptx::parse_body(module, *parsed.function, &parsed.body);  // was checked at load
    for (const ptx::Function* callee : called_functions(module, parsed))
      if (seen.insert(callee).second) waiting.push_back(callee);
    out.push_back(std::move(parsed));
  }
  return out;
}

}  // namespace sluice::softgpu::lower
