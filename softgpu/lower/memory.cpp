// Loads, stores, address conversions and fences.
#include "softgpu/exec/context.h"
#include "softgpu/lower/function.h"

namespace sluice::softgpu::lower {
namespace {

/// Relaxed and stronger accesses up to this size are one, also those of vectors: programs pair a
/// flag with its data so (decoupled look-back).
constexpr std::uint32_t kAtomicBytesMax = 16;

llvm::AtomicOrdering ordering(const ptx::Instruction& i) {
  using O = llvm::AtomicOrdering;
  if (i.has("acquire")) return O::Acquire;
  if (i.has("release")) return O::Release;
  if (i.has("acq_rel")) return O::AcquireRelease;
  if (i.has("volatile") || i.has("relaxed") || i.has("mmio") || i.has("cv")) return O::Monotonic;
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
                                                   ptx::Space space, std::uint32_t bytes) {
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
  if (space != ptx::Space::kParam) check_alignment(at, bytes);
  if (space != ptx::Space::kShared) return b_.CreateIntToPtr(at, b_.getPtrTy());
  return b_.CreateGEP(b_.getInt8Ty(), context_pointer(offsetof(BlockContext, shared)),
                      b_.CreateAnd(at, 0xFFFFFFFFull));
}

/// In strict mode a misaligned address ends the kernel, as it does on a GPU.
void FunctionLowering::check_alignment(Value* at, std::uint32_t bytes) {
  if (!state_.checks_alignment || bytes < 2) return;
  auto* bad = llvm::BasicBlock::Create(context_, "misaligned", out_);
  auto* good = llvm::BasicBlock::Create(context_, "aligned", out_);
  b_.CreateCondBr(b_.CreateICmpEQ(b_.CreateAnd(at, bytes - 1), b_.getInt64(0)), good, bad);
  b_.SetInsertPoint(bad);
  call_helper("softgpu_misaligned", b_.getVoidTy(), {at, b_.getInt32(bytes)});
  b_.CreateUnreachable();
  b_.SetInsertPoint(good);
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
  else if (i.opcode == "cp")
    return copy_async(i);
  else if (i.opcode == "mbarrier")
    return memory_barrier_object(i);
  else if (i.opcode == "membar" || i.opcode == "fence")
    b_.CreateFence(llvm::AtomicOrdering::SequentiallyConsistent);
  else
    return false;
  return true;
}

void FunctionLowering::load(const Instruction& i) {
  const auto type = last_type(i);
  if (!type || i.operands.size() != 2) return unsupported(i);
  const Operand& target = i.operands[0];
  const bool is_vector = target.kind == Operand::Kind::kVector;
  const auto lanes = static_cast<std::uint32_t>(is_vector ? target.parts.size() : 1);
  const std::uint32_t bytes = lanes * type->bytes();
  Value* at = address(i, i.operands[1], space_of(i), bytes);
  const Type each{type->kind == 's' ? 's' : 'b', type->bits};
  const llvm::AtomicOrdering order = ordering(i);
  if (order != llvm::AtomicOrdering::NotAtomic && bytes <= kAtomicBytesMax) {
    auto* loaded =
        b_.CreateAlignedLoad(b_.getIntNTy(8 * bytes), at, llvm::Align(bytes), i.has("volatile"));
    loaded->setAtomic(order == llvm::AtomicOrdering::Release ? llvm::AtomicOrdering::Monotonic
                                                             : order);
    for (std::uint32_t k = 0; k < lanes; ++k)
      set(i, is_vector ? target.parts[k] : target,
          b_.CreateTrunc(b_.CreateLShr(loaded, std::uint64_t{k} * 8 * type->bytes()),
                         b_.getIntNTy(type->bits)),
          each);
    return;
  }
  const bool is_volatile = order != llvm::AtomicOrdering::NotAtomic;
  for (std::uint32_t k = 0; k < lanes; ++k) {
    Value* p = k == 0 ? at : b_.CreateConstGEP1_64(b_.getInt8Ty(), at, k * type->bytes());
    auto* loaded =
        b_.CreateAlignedLoad(b_.getIntNTy(type->bits), p,
                             llvm::Align(type->bits == 128 ? 8 : type->bytes()), is_volatile);
    set(i, is_vector ? target.parts[k] : target, loaded, each);
  }
}

void FunctionLowering::store(const Instruction& i) {
  const auto type = last_type(i);
  if (!type || i.operands.size() != 2) return unsupported(i);
  const Operand& source = i.operands[1];
  const bool is_vector = source.kind == Operand::Kind::kVector;
  const auto lanes = static_cast<std::uint32_t>(is_vector ? source.parts.size() : 1);
  const std::uint32_t bytes = lanes * type->bytes();
  Value* at = address(i, i.operands[0], space_of(i), bytes);
  const auto part = [&](std::uint32_t k) {
    return get_bits(i, is_vector ? source.parts[k] : source, type->bits);
  };
  const llvm::AtomicOrdering order = ordering(i);
  if (order != llvm::AtomicOrdering::NotAtomic && bytes <= kAtomicBytesMax) {
    llvm::Type* whole = b_.getIntNTy(8 * bytes);
    Value* v = b_.CreateZExt(part(0), whole);
    for (std::uint32_t k = 1; k < lanes; ++k)
      v = b_.CreateOr(
          v, b_.CreateShl(b_.CreateZExt(part(k), whole), std::uint64_t{k} * 8 * type->bytes()));
    b_.CreateAlignedStore(v, at, llvm::Align(bytes), i.has("volatile"))
        ->setAtomic(order == llvm::AtomicOrdering::Acquire ? llvm::AtomicOrdering::Monotonic
                                                           : order);
    return;
  }
  const bool is_volatile = order != llvm::AtomicOrdering::NotAtomic;
  for (std::uint32_t k = 0; k < lanes; ++k) {
    Value* p = k == 0 ? at : b_.CreateConstGEP1_64(b_.getInt8Ty(), at, k * type->bytes());
    b_.CreateAlignedStore(part(k), p, llvm::Align(type->bits == 128 ? 8 : type->bytes()),
                          is_volatile);
  }
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
