// Set-up of a function, its registers and variables, statements and jumps.
#include "softgpu/lower/function.h"

#include "softgpu/exec/context.h"
#include "softgpu/lower/suspend.h"
#include "softgpu/ptx/opcodes.h"

#include <llvm/IR/Intrinsics.h>

namespace sluice::softgpu::lower {

FunctionLowering::FunctionLowering(ModuleState& state, const ptx::Function& function,
                                   const ptx::Body& body, llvm::Function* out)
    : state_(state),
      function_(function),
      body_(body),
      out_(out),
      context_(out->getContext()),
      b_(context_) {}

void FunctionLowering::run() {
  b_.SetInsertPoint(llvm::BasicBlock::Create(context_, "entry", out_));
  // (context, tid.x, tid.y, tid.z, return buffers..., parameter buffers...)
  block_context_ = out_->getArg(0);
  for (unsigned i = 0; i < 3; ++i) thread_[i] = out_->getArg(1 + i);
  record_ = record_of_thread(b_, out_);
  unsigned at = 4;
  if (function_.is_entry) {
    Value* params = context_pointer(offsetof(BlockContext, params));
    std::uint32_t offset = 0;
    for (const ptx::Variable& p : function_.params) {
      const auto align = static_cast<std::uint32_t>(p.align_bytes);
      offset = (offset + align - 1) / align * align;
      local_addresses_[p.name] = b_.CreateConstGEP1_64(b_.getInt8Ty(), params, offset);
      offset += static_cast<std::uint32_t>(p.size_bytes);
    }
  } else {
    for (const ptx::Variable& r : function_.returns) local_addresses_[r.name] = out_->getArg(at++);
    for (const ptx::Variable& p : function_.params) local_addresses_[p.name] = out_->getArg(at++);
  }
  declare_registers();
  declare_variables();
  for (const auto* list : {&function_.params, &function_.returns})
    for (const ptx::Variable& v : *list)
      if (v.is_register && state_.error.empty())
        state_.error = "kernel " + state_.kernel + ": line " + std::to_string(function_.line) +
                       ": function " + function_.name +
                       " has parameters in registers, which softgpu does not support yet";
  for (const ptx::Statement& s : body_.statements) {
    if (!state_.error.empty()) return;
    statement(s);
  }
  if (b_.GetInsertBlock()->getTerminator() == nullptr) b_.CreateRetVoid();
  for (auto& [label, target] : blocks_)
    if (target->empty()) {
      b_.SetInsertPoint(target);
      b_.CreateRetVoid();
    }
}

void FunctionLowering::declare_registers() {
  // Registers start as zero: PTX leaves them undefined, LLVM would take that as leave to remove
  // code.
  const auto declare = [&](unsigned bits) {
    auto* slot = b_.CreateAlloca(b_.getIntNTy(bits));
    b_.CreateStore(b_.getIntN(bits, 0), slot);
    return slot;
  };
  for (const std::uint16_t bits : body_.register_bits) registers_.push_back(declare(bits));
  carry_ = declare(1);
}

void FunctionLowering::declare_variables() {
  for (const ptx::Variable& v : body_.variables) {
    if (v.space == ptx::Space::kShared) continue;  // placed by lower_kernel
    auto* memory = b_.CreateAlloca(
        llvm::ArrayType::get(b_.getInt8Ty(), std::max<std::size_t>(v.size_bytes, 1)));
    memory->setAlignment(llvm::Align(std::max<std::size_t>(v.align_bytes, 8)));
    local_addresses_[v.name] = memory;
    if (v.space == ptx::Space::kLocal)
      state_.local_bytes += static_cast<std::uint32_t>(v.size_bytes);
  }
}

llvm::BasicBlock* FunctionLowering::block(const std::string& label) {
  auto& found = blocks_[label];
  if (found == nullptr) found = llvm::BasicBlock::Create(context_, label, out_);
  return found;
}

void FunctionLowering::statement(const ptx::Statement& s) {
  if (s.is_label) {
    if (!s.targets.empty()) {
      branch_targets_[s.label] = s.targets;
      return;
    }
    llvm::BasicBlock* target = block(s.label);
    if (b_.GetInsertBlock()->getTerminator() == nullptr) b_.CreateBr(target);
    b_.SetInsertPoint(target);
    return;
  }
  const Instruction& i = s.instruction;
  if (b_.GetInsertBlock()->getTerminator() != nullptr)  // unreachable code behind a jump
    b_.SetInsertPoint(llvm::BasicBlock::Create(context_, "dead", out_));
  if (i.guard < 0) return instruction(i);
  Value* condition = b_.CreateLoad(b_.getInt1Ty(), registers_[static_cast<std::size_t>(i.guard)]);
  if (i.is_guard_negated) condition = b_.CreateNot(condition);
  auto* taken = llvm::BasicBlock::Create(context_, "taken", out_);
  auto* after = llvm::BasicBlock::Create(context_, "after", out_);
  b_.CreateCondBr(condition, taken, after);
  b_.SetInsertPoint(taken);
  instruction(i);
  if (b_.GetInsertBlock()->getTerminator() == nullptr) b_.CreateBr(after);
  b_.SetInsertPoint(after);
}

void FunctionLowering::instruction(const Instruction& i) {
  if (!is_lowered(i)) return;
  if (control(i) || collective(i) || matrix(i) || memory(i) || compare(i) || arithmetic(i) ||
      video(i))
    return;
  if (state_.error.empty()) unsupported(i);
}

/// Only what the opcode table lists is lowered: no modifier is ever ignored by accident.
bool FunctionLowering::is_lowered(const Instruction& i) {
  const ptx::Opcode* opcode = ptx::find_opcode(i.opcode);
  if (opcode == nullptr || !opcode->is_lowered) {
    unsupported(i);
    return false;
  }
  Type type;
  for (const std::string& mod : i.mods)
    if (!ptx::parse_type(mod, &type) && !opcode->accepts(mod)) {
      unsupported(i, "modifier ." + mod);
      return false;
    }
  if (i.operands.size() >= opcode->operands_min && i.operands.size() <= opcode->operands_max)
    return true;
  unsupported(i, "with " + std::to_string(i.operands.size()) + " operands");
  return false;
}

void FunctionLowering::unsupported(const Instruction& i, const std::string& why) {
  if (!state_.error.empty()) return;
  state_.error = "kernel " + state_.kernel + ": line " + std::to_string(i.line) +
                 ": instruction \"" + i.text() + "\" is not supported by softgpu yet" +
                 (why.empty() ? "" : " (" + why + ")");
}

bool FunctionLowering::control(const Instruction& i) {
  if (i.opcode == "bra") {
    if (i.operands.size() != 1 || i.operands[0].kind != Operand::Kind::kSymbol) return false;
    b_.CreateBr(block(i.operands[0].symbol));
  } else if (i.opcode == "brx") {
    return branch_by_index(i);
  } else if (i.opcode == "ret") {
    b_.CreateRetVoid();
  } else if (i.opcode == "exit") {
    if (function_.is_entry) {
      b_.CreateRetVoid();
    } else {
      b_.CreateCall(exit_marker(state_.llvm));
      b_.CreateUnreachable();
    }
  } else if (i.opcode == "trap") {
    call_helper("softgpu_trap", b_.getVoidTy(), {});
    b_.CreateUnreachable();
  } else if (i.opcode == "call") {
    call(i);
  } else if (i.opcode == "prefetch" || i.opcode == "prefetchu" || i.opcode == "pmevent" ||
             i.opcode == "discard" || i.opcode == "applypriority" || i.opcode == "brkpt" ||
             i.opcode == "griddepcontrol") {
    return true;  // hints, or events that nobody watches
  } else {
    return false;
  }
  return true;
}

/// brx.idx index, list: the list stands before the jump; an index beyond it is undefined.
bool FunctionLowering::branch_by_index(const Instruction& i) {
  const auto list = branch_targets_.find(i.operands[1].symbol);
  if (list == branch_targets_.end()) return false;
  auto* beyond = llvm::BasicBlock::Create(context_, "beyond", out_);
  auto* jump = b_.CreateSwitch(get_bits(i, i.operands[0], 32), beyond,
                               static_cast<unsigned>(list->second.size()));
  for (std::size_t k = 0; k < list->second.size(); ++k)
    jump->addCase(b_.getInt32(static_cast<std::uint32_t>(k)), block(list->second[k]));
  b_.SetInsertPoint(beyond);
  b_.CreateUnreachable();
  return true;
}

llvm::FunctionCallee FunctionLowering::helper(const std::string& name, llvm::Type* result,
                                              const std::vector<llvm::Type*>& args) {
  return state_.llvm.getOrInsertFunction(name, llvm::FunctionType::get(result, args, false));
}

FunctionLowering::Value* FunctionLowering::call_helper(const std::string& name, llvm::Type* result,
                                                       const std::vector<Value*>& args) {
  std::vector<llvm::Type*> types;
  for (Value* v : args) types.push_back(v->getType());
  return b_.CreateCall(helper(name, result, types), args);
}

}  // namespace sluice::softgpu::lower
