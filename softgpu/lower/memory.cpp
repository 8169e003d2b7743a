// Loads, stores, atomics, address conversions and fences.
#include "softgpu/exec/context.h"
#include "softgpu/lower/function.h"

namespace sluice::softgpu::lower {
namespace {

llvm::AtomicOrdering ordering(const ptx::Instruction& i) {
  using O = llvm::AtomicOrdering;
  if (i.has("acquire")) return O::Acquire;
  if (i.has("release")) return O::Release;
  if (i.has("acq_rel")) return O::AcquireRelease;
  if (i.has("volatile") || i.has("relaxed") || i.has("mmio")) return O::Monotonic;
  return O::NotAtomic;
}

}  // namespace

ptx::Space FunctionLowering::space_of(const Instruction& i) {
  for (const std::string& mod : i.mods) {
    if (mod == "global") return ptx::Space::kGlobal;
    if (mod == "const") return ptx::Space::kConst;
    if (mod.starts_with("shared")) return ptx::Space::kShared;
    if (mod == "local") return ptx::Space::kLocal;
    if (mod.starts_with("param")) return ptx::Space::kParam;
  }
  return ptx::Space::kNone;
}

FunctionLowering::Value* FunctionLowering::address(const Instruction& i, const Operand& o,
                                                   ptx::Space space) {
  if (o.kind != Operand::Kind::kAddress) {
    unsupported(i, "address");
    return b_.CreateIntToPtr(b_.getInt64(0), b_.getPtrTy());
  }
  Value* at = nullptr;
  if (o.reg >= 0) {
    Operand base;
    base.kind = Operand::Kind::kRegister;
    base.reg = o.reg;
    at = get_bits(i, base, 64);
    if (space == ptx::Space::kShared) at = b_.CreateAnd(at, 0xFFFFFFFFull);
  } else {
    at = o.symbol.empty() ? b_.getInt64(0) : symbol_address(i, o.symbol);
  }
  at = b_.CreateAdd(at, b_.getInt64(static_cast<std::uint64_t>(o.integer)));
  if (space != ptx::Space::kShared) return b_.CreateIntToPtr(at, b_.getPtrTy());
  return b_.CreateGEP(b_.getInt8Ty(), context_pointer(offsetof(BlockContext, shared)),
                      b_.CreateAnd(at, 0xFFFFFFFFull));
}

bool FunctionLowering::memory(const Instruction& i) {
  if (i.opcode == "ld" || i.opcode == "ldu")
    load(i);
  else if (i.opcode == "st")
    store(i);
  else if (i.opcode == "atom" || i.opcode == "red")
    return atomic(i);
  else if (i.opcode == "cvta" || i.opcode == "isspacep")
    return convert_address(i);
  else if (i.opcode == "membar" || i.opcode == "fence")
    b_.CreateFence(llvm::AtomicOrdering::SequentiallyConsistent);
  else
    return false;
  return true;
}

void FunctionLowering::load(const Instruction& i) {
  const auto type = last_type(i);
  if (!type || i.operands.size() != 2) return unsupported(i);
  Value* at = address(i, i.operands[1], space_of(i));
  const Operand& target = i.operands[0];
  const std::size_t lanes = target.kind == Operand::Kind::kVector ? target.parts.size() : 1;
  const llvm::AtomicOrdering order = ordering(i);
  for (std::size_t k = 0; k < lanes; ++k) {
    Value* p = k == 0 ? at : b_.CreateConstGEP1_64(b_.getInt8Ty(), at, k * type->bytes());
    auto* loaded = b_.CreateAlignedLoad(b_.getIntNTy(type->bits), p,
                                        llvm::Align(type->bits == 128 ? 8 : type->bytes()));
    if (order != llvm::AtomicOrdering::NotAtomic && type->bits <= 64)
      loaded->setAtomic(order == llvm::AtomicOrdering::Release ? llvm::AtomicOrdering::Monotonic
                                                               : order);
    if (i.has("volatile")) loaded->setVolatile(true);
    set(i, target.kind == Operand::Kind::kVector ? target.parts[k] : target, loaded,
        Type{type->kind == 's' ? 's' : 'b', type->bits});
  }
}

void FunctionLowering::store(const Instruction& i) {
  const auto type = last_type(i);
  if (!type || i.operands.size() != 2) return unsupported(i);
  Value* at = address(i, i.operands[0], space_of(i));
  const Operand& source = i.operands[1];
  const std::size_t lanes = source.kind == Operand::Kind::kVector ? source.parts.size() : 1;
  const llvm::AtomicOrdering order = ordering(i);
  for (std::size_t k = 0; k < lanes; ++k) {
    Value* p = k == 0 ? at : b_.CreateConstGEP1_64(b_.getInt8Ty(), at, k * type->bytes());
    Value* v =
        get_bits(i, source.kind == Operand::Kind::kVector ? source.parts[k] : source, type->bits);
    auto* stored = b_.CreateAlignedStore(v, p, llvm::Align(type->bits == 128 ? 8 : type->bytes()));
    if (order != llvm::AtomicOrdering::NotAtomic && type->bits <= 64)
      stored->setAtomic(order == llvm::AtomicOrdering::Acquire ? llvm::AtomicOrdering::Monotonic
                                                               : order);
    if (i.has("volatile")) stored->setVolatile(true);
  }
}

bool FunctionLowering::atomic(const Instruction& i) {
  using Op = llvm::AtomicRMWInst::BinOp;
  const auto type = last_type(i);
  if (!type || type->lanes != 1 || type->kind == 'h' || type->bits < 16 || type->bits > 64 ||
      (type->kind == 'f' && type->bits == 16))
    return false;
  if (i.operands.size() != (i.opcode == "atom" ? 3u : 2u) + (i.has("cas") ? 1u : 0u)) return false;
  const bool returns = i.opcode == "atom";
  const std::size_t first = returns ? 1 : 0;
  Value* at = address(i, i.operands[first], space_of(i));
  const auto order = llvm::AtomicOrdering::SequentiallyConsistent;
  auto* integer = b_.getIntNTy(type->bits);
  const llvm::MaybeAlign align(type->bytes());
  Value* old = nullptr;
  if (i.has("cas")) {
    auto* pair =
        b_.CreateAtomicCmpXchg(at, get_bits(i, i.operands[first + 1], type->bits),
                               get_bits(i, i.operands[first + 2], type->bits), align, order, order);
    old = b_.CreateExtractValue(pair, 0);
  } else {
    Op op{};
    if (i.has("exch"))
      op = Op::Xchg;
    else if (i.has("add"))
      op = type->is_float() ? Op::FAdd : Op::Add;
    else if (i.has("and"))
      op = Op::And;
    else if (i.has("or"))
      op = Op::Or;
    else if (i.has("xor"))
      op = Op::Xor;
    else if (i.has("inc"))
      op = Op::UIncWrap;
    else if (i.has("dec"))
      op = Op::UDecWrap;
    else if (i.has("min"))
      op = type->is_float() ? Op::FMin : type->is_signed() ? Op::Min : Op::UMin;
    else if (i.has("max"))
      op = type->is_float() ? Op::FMax : type->is_signed() ? Op::Max : Op::UMax;
    else
      return false;
    const bool as_float = op == Op::FAdd || op == Op::FMin || op == Op::FMax;
    Value* v = as_float ? get(i, i.operands[first + 1], *type)
                        : get_bits(i, i.operands[first + 1], type->bits);
    old = b_.CreateBitCast(b_.CreateAtomicRMW(op, at, v, align, order), integer);
  }
  if (returns) set(i, i.operands[0], old, Type{type->kind == 's' ? 's' : 'b', type->bits});
  return true;
}

bool FunctionLowering::convert_address(const Instruction& i) {
  const ptx::Space space = space_of(i);
  Value* base = b_.CreatePtrToInt(context_pointer(offsetof(BlockContext, shared)), b_.getInt64Ty());
  const Type u64{'u', 64};
  if (i.opcode == "isspacep") {
    Value* inside = b_.CreateICmpULT(b_.CreateSub(get_bits(i, i.operands[1], 64), base),
                                     b_.getInt64(kSharedWindowBytes));
    if (space != ptx::Space::kShared && space != ptx::Space::kGlobal) return false;
    set(i, i.operands[0], space == ptx::Space::kShared ? inside : b_.CreateNot(inside),
        Type{'p', 1});
    return true;
  }
  Value* v = get_bits(i, i.operands[1], 64);
  if (space == ptx::Space::kShared)
    v = i.has("to") ? b_.CreateSub(v, base) : b_.CreateAdd(b_.CreateAnd(v, 0xFFFFFFFFull), base);
  set(i, i.operands[0], v, u64);
  return true;
}

}  // namespace sluice::softgpu::lower
