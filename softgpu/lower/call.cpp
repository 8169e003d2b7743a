// Calls: of functions by name and through pointers, and of what the driver defines.
#include "softgpu/lower/function.h"

namespace sluice::softgpu::lower {

FunctionLowering::Value* FunctionLowering::parameter_address(const Operand& o) {
  const auto found = local_addresses_.find(o.symbol);
  if (o.kind == Operand::Kind::kSymbol && found != local_addresses_.end()) return found->second;
  return nullptr;
}

void FunctionLowering::call(const Instruction& i) {
  const CallOperands operands = operands_of(i);
  if (operands.target == nullptr) return unsupported(i, "without a function");
  const auto defined = state_.ptx.function_index.find(operands.target->symbol);
  const std::string name = defined == state_.ptx.function_index.end()
                               ? operands.target->symbol
                               : state_.ptx.functions[defined->second].name;  // of an alias
  if (!operands.is_indirect() && !state_.functions.contains(name))
    return call_builtin(i, name, operands.results, operands.args);
  std::vector<Value*> values = {block_context_, thread_[0], thread_[1], thread_[2]};
  for (const Operand* list : {operands.results, operands.args})
    if (list != nullptr)
      for (const Operand& o : list->parts) {
        Value* memory = parameter_address(o);
        if (memory == nullptr) return unsupported(i, "register as a call parameter");
        values.push_back(memory);
      }
  if (operands.is_indirect())
    return call_through_pointer(
        get_bits(i, *operands.target, 64), values,
        signature_of_call(function_, body_, operands.results, operands.args));
  llvm::Function* callee = state_.functions[name];
  if (values.size() != callee->arg_size()) return unsupported(i, "wrong number of parameters");
  b_.CreateCall(callee, values);
}

/// One comparison for each function that the pointer may hold. A host address in the pointer would
/// spare them, but then nothing could be inlined, so nothing behind the call could wait.
void FunctionLowering::call_through_pointer(Value* pointer, const std::vector<Value*>& values,
                                            const Signature& signature) {
  auto* bad = llvm::BasicBlock::Create(context_, "no_function", out_);
  auto* after = llvm::BasicBlock::Create(context_, "called", out_);
  auto* choice = b_.CreateSwitch(b_.CreateSub(pointer, functions_address()), bad);
  for (const std::size_t number : state_.ptx.pointed_to) {
    const ptx::Function& f = state_.ptx.functions[number];
    const auto callee = state_.functions.find(f.name);
    if (f.is_entry || callee == state_.functions.end() || signature_of(f) != signature) continue;
    auto* call = llvm::BasicBlock::Create(context_, "call", out_);
    choice->addCase(b_.getInt64(ptx::function_offset(number)), call);
    b_.SetInsertPoint(call);
    b_.CreateCall(callee->second, values);
    b_.CreateBr(after);
  }
  b_.SetInsertPoint(bad);
  call_helper("softgpu_no_function", b_.getVoidTy(), {pointer});
  b_.CreateUnreachable();
  b_.SetInsertPoint(after);
}

/// Values of a builtin's parameters; false if they are not as many.
bool FunctionLowering::builtin_arguments(const Operand* args, std::vector<unsigned> bits,
                                         std::vector<Value*>* out) {
  if (args == nullptr || args->parts.size() < bits.size()) return false;
  for (std::size_t k = 0; k < bits.size(); ++k) {
    Value* memory = parameter_address(args->parts[k]);
    if (memory == nullptr) return false;
    Value* value = b_.CreateLoad(b_.getIntNTy(bits[k]), memory);
    out->push_back(value);
  }
  return true;
}

void FunctionLowering::call_builtin(const Instruction& i, const std::string& name,
                                    const Operand* results, const Operand* args) {
  std::vector<Value*> values = {block_context_};
  Value* result = results != nullptr && results->parts.size() == 1
                      ? parameter_address(results->parts[0])
                      : nullptr;
  if (name == "__assertfail") {
    values.insert(values.end(), thread_, thread_ + 3);
    if (!builtin_arguments(args, {64, 64, 32, 64}, &values)) return unsupported(i, name);
    call_helper("softgpu_assertfail", b_.getVoidTy(), values);
  } else if (name == "vprintf") {
    if (!builtin_arguments(args, {64, 64}, &values)) return unsupported(i, name);
    Value* taken = call_helper("softgpu_vprintf", b_.getInt32Ty(), values);
    if (result != nullptr) b_.CreateStore(taken, result);
  } else if (name == "malloc" && result != nullptr) {
    if (!builtin_arguments(args, {64}, &values)) return unsupported(i, name);
    b_.CreateStore(call_helper("softgpu_malloc", b_.getInt64Ty(), values), result);
  } else if (name == "free") {
    if (!builtin_arguments(args, {64}, &values)) return unsupported(i, name);
    call_helper("softgpu_free", b_.getVoidTy(), values);
  } else {
    unsupported(i, "call of " + name);
  }
}

}  // namespace sluice::softgpu::lower
