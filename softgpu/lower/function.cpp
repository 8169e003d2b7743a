// Set-up of a function, registers and operands, control flow and calls.
#include "softgpu/lower/function.h"

#include "softgpu/exec/context.h"
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
  if (control(i) || collective(i) || memory(i) || compare(i) || arithmetic(i)) return;
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
  } else if (i.opcode == "exit" && function_.is_entry) {
    b_.CreateRetVoid();
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

FunctionLowering::Value* FunctionLowering::parameter_address(const Operand& o) {
  const auto found = local_addresses_.find(o.symbol);
  if (o.kind == Operand::Kind::kSymbol && found != local_addresses_.end()) return found->second;
  return nullptr;
}

void FunctionLowering::call(const Instruction& i) {
  const Operand* results = nullptr;
  const Operand* args = nullptr;
  const Operand* target = nullptr;
  for (const Operand& o : i.operands) {
    if (o.kind == Operand::Kind::kList)
      (target == nullptr ? results : args) = &o;
    else if (target == nullptr)
      target = &o;
  }
  if (target == nullptr || target->kind != Operand::Kind::kSymbol)
    return unsupported(i, "indirect call");
  const auto found = state_.functions.find(target->symbol);
  if (found == state_.functions.end()) return call_builtin(i, target->symbol, results, args);
  std::vector<Value*> values = {block_context_, thread_[0], thread_[1], thread_[2]};
  for (const Operand* list : {results, args})
    if (list != nullptr)
      for (const Operand& o : list->parts) {
        Value* memory = parameter_address(o);
        if (memory == nullptr) return unsupported(i, "register as a call parameter");
        values.push_back(memory);
      }
  if (values.size() != found->second->arg_size())
    return unsupported(i, "wrong number of parameters");
  b_.CreateCall(found->second, values);
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

llvm::FunctionCallee FunctionLowering::helper(const std::string& name, llvm::Type* result,
                                              std::vector<llvm::Type*> args) {
  return state_.llvm.getOrInsertFunction(name, llvm::FunctionType::get(result, args, false));
}

FunctionLowering::Value* FunctionLowering::call_helper(const std::string& name, llvm::Type* result,
                                                       std::vector<Value*> args) {
  std::vector<llvm::Type*> types;
  for (Value* v : args) types.push_back(v->getType());
  return b_.CreateCall(helper(name, result, types), args);
}

FunctionLowering::Value* FunctionLowering::context_u32(std::size_t offset_bytes) {
  return b_.CreateLoad(b_.getInt32Ty(),
                       b_.CreateConstGEP1_64(b_.getInt8Ty(), block_context_, offset_bytes));
}

FunctionLowering::Value* FunctionLowering::context_pointer(std::size_t offset_bytes) {
  return b_.CreateLoad(b_.getPtrTy(),
                       b_.CreateConstGEP1_64(b_.getInt8Ty(), block_context_, offset_bytes));
}

FunctionLowering::Value* FunctionLowering::special(const Instruction& i, const std::string& name) {
  const std::string axis =
      name.size() > 2 && name[name.size() - 2] == '.' ? name.substr(name.size() - 1) : "";
  const std::string base = axis.empty() ? name : name.substr(0, name.size() - 2);
  const std::size_t k = axis == "y" ? 1 : axis == "z" ? 2 : 0;
  const auto linear = [&] {
    Value* ntid_x = context_u32(offsetof(BlockContext, ntid));
    Value* ntid_y = context_u32(offsetof(BlockContext, ntid) + 4);
    return b_.CreateAdd(
        thread_[0],
        b_.CreateMul(ntid_x, b_.CreateAdd(thread_[1], b_.CreateMul(ntid_y, thread_[2]))));
  };
  if (!axis.empty() && axis != "w") {
    if (base == "%tid") return thread_[k];
    if (base == "%ntid") return context_u32(offsetof(BlockContext, ntid) + 4 * k);
    if (base == "%ctaid") return context_u32(offsetof(BlockContext, ctaid) + 4 * k);
    if (base == "%nctaid") return context_u32(offsetof(BlockContext, nctaid) + 4 * k);
    if (base == "%clusterid") return context_u32(offsetof(BlockContext, ctaid) + 4 * k);
    if (base == "%cluster_ctaid") return b_.getInt32(0);
    if (base == "%cluster_nctaid") return b_.getInt32(1);
  }
  Value* lane = b_.CreateAnd(linear(), b_.getInt32(31));
  if (name == "%laneid") return lane;
  if (name == "%warpid") return b_.CreateLShr(linear(), b_.getInt32(5));
  if (name == "%lanemask_eq") return b_.CreateShl(b_.getInt32(1), lane);
  if (name == "%lanemask_lt")
    return b_.CreateSub(b_.CreateShl(b_.getInt32(1), lane), b_.getInt32(1));
  if (name == "%lanemask_le")
    return b_.CreateSub(b_.CreateShl(b_.getInt32(2), lane), b_.getInt32(1));
  if (name == "%lanemask_gt")
    return b_.CreateNot(b_.CreateSub(b_.CreateShl(b_.getInt32(2), lane), b_.getInt32(1)));
  if (name == "%lanemask_ge")
    return b_.CreateNot(b_.CreateSub(b_.CreateShl(b_.getInt32(1), lane), b_.getInt32(1)));
  if (name == "%dynamic_smem_size")
    return context_u32(offsetof(BlockContext, dynamic_shared_bytes));
  if (name == "%total_smem_size") return context_u32(offsetof(BlockContext, total_shared_bytes));
  if (name == "%gridid")
    return b_.CreateZExt(context_u32(offsetof(BlockContext, grid_id)), b_.getInt64Ty());
  if (name == "%clock" || name == "%clock_hi" || name == "%clock64" || name == "%globaltimer" ||
      name == "%globaltimer_lo") {
    Value* now = call_helper(name.starts_with("%clock") ? "softgpu_clock" : "softgpu_globaltimer",
                             b_.getInt64Ty(), {});
    if (name == "%clock" || name == "%globaltimer_lo") return b_.CreateTrunc(now, b_.getInt32Ty());
    return name == "%clock_hi" ? b_.CreateTrunc(b_.CreateLShr(now, 32), b_.getInt32Ty()) : now;
  }
  if (name == "%nwarpid") {
    Value* threads = context_u32(offsetof(BlockContext, ntid));
    for (const std::size_t at : {4u, 8u})
      threads = b_.CreateMul(threads, context_u32(offsetof(BlockContext, ntid) + at));
    return b_.CreateLShr(b_.CreateAdd(threads, b_.getInt32(31)), b_.getInt32(5));
  }
  if (name == "%cluster_ctarank") return b_.getInt32(0);
  if (name == "%cluster_nctarank") return b_.getInt32(1);
  if (name == "%is_explicit_cluster") return b_.getInt1(false);
  if (name == "%envreg1" || name == "%envreg2") {  // where grid-wide barriers count
    Value* at =
        b_.CreatePtrToInt(context_pointer(offsetof(BlockContext, grid_workspace)), b_.getInt64Ty());
    return b_.CreateTrunc(name == "%envreg1" ? b_.CreateLShr(at, 32) : at, b_.getInt32Ty());
  }
  if (name.starts_with("%envreg")) return b_.getInt32(0);
  if (name == "%smid") return b_.getInt32(0);
  if (name == "%nsmid") return b_.getInt32(1);
  unsupported(i, "special register " + name);
  return b_.getInt32(0);
}

llvm::Type* FunctionLowering::llvm_type(Type type) {
  if (type.kind == 'f' && type.lanes == 1) {
    if (type.bits == 64) return b_.getDoubleTy();
    if (type.bits == 32) return b_.getFloatTy();
    return b_.getHalfTy();
  }
  return b_.getIntNTy(type.bits);
}

/// The k-th type among the modifiers, counted from the end.
std::optional<ptx::Type> FunctionLowering::last_type(const Instruction& i, std::size_t from_end) {
  for (auto mod = i.mods.rbegin(); mod != i.mods.rend(); ++mod) {
    Type type;
    if (!ptx::parse_type(*mod, &type)) continue;
    if (from_end == 0) return type;
    --from_end;
  }
  return std::nullopt;
}

FunctionLowering::Value* FunctionLowering::symbol_address(const Instruction& i,
                                                          const std::string& symbol) {
  if (const auto local = local_addresses_.find(symbol); local != local_addresses_.end())
    return b_.CreatePtrToInt(local->second, b_.getInt64Ty());
  for (const std::string& key : {function_.name + "/" + symbol, "/" + symbol})
    if (const auto shared = state_.shared_offsets.find(key); shared != state_.shared_offsets.end())
      return b_.getInt64(shared->second);
  if (const auto known = state_.ptx.variable_index.find(symbol);
      known != state_.ptx.variable_index.end())
    return b_.CreatePtrToInt(state_.llvm.getOrInsertGlobal(symbol_of(symbol), b_.getInt8Ty()),
                             b_.getInt64Ty());
  unsupported(i, "address of " + symbol);
  return b_.getInt64(0);
}

FunctionLowering::Value* FunctionLowering::get_bits(const Instruction& i, const Operand& o,
                                                    unsigned bits) {
  Value* value = nullptr;
  switch (o.kind) {
    case Operand::Kind::kRegister: {
      llvm::AllocaInst* slot = registers_[static_cast<std::size_t>(o.reg)];
      value = b_.CreateLoad(slot->getAllocatedType(), slot);
      if (o.is_negated) value = b_.CreateNot(value);
      break;
    }
    case Operand::Kind::kInteger:
      return b_.getInt(llvm::APInt(64, static_cast<std::uint64_t>(o.integer)).sextOrTrunc(bits));
    case Operand::Kind::kFloat: {
      std::uint64_t raw = static_cast<std::uint64_t>(o.integer);
      if (o.float_bits == 64 && bits == 32) {
        const float narrowed = static_cast<float>(llvm::bit_cast<double>(raw));
        raw = llvm::bit_cast<std::uint32_t>(narrowed);
      } else if (o.float_bits == 32 && bits == 64) {
        raw = llvm::bit_cast<std::uint64_t>(
            static_cast<double>(llvm::bit_cast<float>(static_cast<std::uint32_t>(raw))));
      }
      return b_.getInt(llvm::APInt(64, raw).zextOrTrunc(bits));
    }
    case Operand::Kind::kSpecial:
      value = special(i, o.symbol);
      break;
    case Operand::Kind::kSymbol:
      value = b_.CreateAdd(symbol_address(i, o.symbol),
                           b_.getInt64(static_cast<std::uint64_t>(o.integer)));
      break;
    case Operand::Kind::kVector: {  // mov.b64 %rd, {%r1, %r2}
      value = b_.getIntN(bits, 0);
      const unsigned part = bits / static_cast<unsigned>(std::max<std::size_t>(o.parts.size(), 1));
      for (std::size_t k = 0; k < o.parts.size(); ++k) {
        Value* piece = b_.CreateZExt(get_bits(i, o.parts[k], part), b_.getIntNTy(bits));
        value = b_.CreateOr(value, b_.CreateShl(piece, part * k));
      }
      return value;
    }
    case Operand::Kind::kAddress:
    case Operand::Kind::kList:
    case Operand::Kind::kPair:
    case Operand::Kind::kSink:
      unsupported(i, "operand");
      return b_.getIntN(bits, 0);
  }
  return b_.CreateZExtOrTrunc(value, b_.getIntNTy(bits));
}

FunctionLowering::Value* FunctionLowering::get(const Instruction& i, const Operand& o, Type type) {
  Value* raw = get_bits(i, o, type.bits);
  return b_.CreateBitCast(raw, llvm_type(type));
}

FunctionLowering::Value* FunctionLowering::get_predicate(const Instruction& i, const Operand& o) {
  if (o.kind == Operand::Kind::kInteger) return b_.getInt1((o.integer != 0) != o.is_negated);
  if (o.kind == Operand::Kind::kSpecial) return get_bits(i, o, 1);
  if (o.kind == Operand::Kind::kRegister &&
      body_.register_bits[static_cast<std::size_t>(o.reg)] == 1)
    return get_bits(i, o, 1);
  unsupported(i, "predicate operand");
  return b_.getInt1(false);
}

/// Stores to a register; narrower values are extended as their type says, e.g. ld.s8 into a 32-bit
/// register.
void FunctionLowering::set(const Instruction& i, const Operand& o, Value* value, Type type) {
  if (o.kind == Operand::Kind::kSink) return;
  value = b_.CreateBitCast(value, b_.getIntNTy(type.bits));
  if (o.kind == Operand::Kind::kVector) {  // mov.b64 {%r1, %r2}, %rd
    const unsigned part =
        type.bits / static_cast<unsigned>(std::max<std::size_t>(o.parts.size(), 1));
    for (std::size_t k = 0; k < o.parts.size(); ++k)
      set(i, o.parts[k], b_.CreateTrunc(b_.CreateLShr(value, part * k), b_.getIntNTy(part)),
          Type{'b', static_cast<std::uint16_t>(part)});
    return;
  }
  if (o.kind != Operand::Kind::kRegister) return unsupported(i, "destination");
  llvm::AllocaInst* slot = registers_[static_cast<std::size_t>(o.reg)];
  llvm::Type* wanted = slot->getAllocatedType();
  b_.CreateStore(
      type.is_signed() ? b_.CreateSExtOrTrunc(value, wanted) : b_.CreateZExtOrTrunc(value, wanted),
      slot);
}

}  // namespace sluice::softgpu::lower
