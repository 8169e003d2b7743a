// Reading and writing operands: registers, literals, addresses of symbols.
#include "softgpu/lower/function.h"

namespace sluice::softgpu::lower {

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

/// Where the numbers of the module's functions start.
FunctionLowering::Value* FunctionLowering::functions_address() {
  return b_.CreatePtrToInt(state_.llvm.getOrInsertGlobal(kFunctionsSymbol, b_.getInt8Ty()),
                           b_.getInt64Ty());
}

FunctionLowering::Value* FunctionLowering::symbol_address(const Instruction& i,
                                                          const std::string& symbol) {
  if (const auto local = local_addresses_.find(symbol); local != local_addresses_.end())
    return b_.CreatePtrToInt(local->second, b_.getInt64Ty());
  if (const auto function = state_.ptx.function_index.find(symbol);
      function != state_.ptx.function_index.end())
    return b_.CreateAdd(functions_address(), b_.getInt64(ptx::function_offset(function->second)));
  for (const std::string& key : {function_.name + "/" + symbol, "/" + symbol})
    if (const auto shared = state_.shared_offsets.find(key); shared != state_.shared_offsets.end())
      return b_.getInt64(shared->second);
  if (const auto known = state_.ptx.variable_index.find(symbol);
      known != state_.ptx.variable_index.end()) {
    const std::string& why = state_.ptx.variables[known->second].unsupported;
    if (!why.empty()) unsupported(i, symbol + ": " + why);
    return b_.CreatePtrToInt(state_.llvm.getOrInsertGlobal(symbol_of(symbol), b_.getInt8Ty()),
                             b_.getInt64Ty());
  }
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
