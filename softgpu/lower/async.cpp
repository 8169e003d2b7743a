// Copies that PTX allows to happen later (here they are done at once), and the barriers in memory
// that count threads and copies. A block's threads take turns on one host thread, so a barrier's
// word needs no atomic access; a thread that polls it yields as any spin loop does.
#include "softgpu/lower/function.h"

#include <llvm/IR/Intrinsics.h>

namespace sluice::softgpu::lower {
namespace {

/// A barrier's 64 bits, opaque to programs: arrivals still pending, arrivals that the next phase
/// expects, and the phase.
constexpr unsigned kCountBits = 20;
constexpr std::uint64_t kCountMask = (1u << kCountBits) - 1;

}  // namespace

/// cp.async.{ca,cg}.shared.global [to], [from], bytes{, bytes of `from` | ignore}; the groups'
/// instructions have nothing left to wait for.
bool FunctionLowering::copy_async(const Instruction& i) {
  if (!i.has("async")) return false;
  if (i.has("commit_group") || i.has("wait_group") || i.has("wait_all")) return true;
  if (i.has("mbarrier")) {
    // Without .noinc the copies arrive on their own account: expected one more, arrived one more.
    if (i.has("noinc")) arrive(barrier_address(i, i.operands[0]), b_.getInt64(1), false);
    return i.has("arrive") && i.operands.size() == 1;
  }
  if (i.operands.size() < 3 || i.operands[2].kind != Operand::Kind::kInteger) return false;
  const auto bytes = static_cast<std::uint32_t>(i.operands[2].integer);
  if (bytes != 4 && bytes != 8 && bytes != 16) return false;
  Value* to = address(i, i.operands[0], ptx::Space::kShared, bytes);
  Value* from = address(i, i.operands[1], ptx::Space::kGlobal, bytes);
  Value* present = b_.getInt64(bytes);
  if (i.operands.size() > 3 && !(i.operands.size() == 4 && i.has("L2::cache_hint"))) {
    const Operand& o = i.operands[3];
    const bool is_ignore = o.kind == Operand::Kind::kRegister &&
                           body_.register_bits[static_cast<std::size_t>(o.reg)] == 1;
    if (is_ignore)
      present = b_.CreateSelect(get_predicate(i, o), b_.getInt64(0), present);
    else
      present = b_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, present,
                                         b_.CreateZExt(get_bits(i, o, 32), b_.getInt64Ty()));
  }
  const llvm::Align align(4);
  if (!llvm::isa<llvm::ConstantInt>(present)) b_.CreateMemSet(to, b_.getInt8(0), bytes, align);
  b_.CreateMemCpy(to, align, from, align, present);
  return true;
}

FunctionLowering::Value* FunctionLowering::barrier_address(const Instruction& i, const Operand& o) {
  return address(i, o, space_of(i), 8);
}

/// Volatile: what another thread of the block changes meanwhile.
FunctionLowering::Value* FunctionLowering::barrier_word(Value* at) {
  return b_.CreateAlignedLoad(b_.getInt64Ty(), at, llvm::Align(8), true);
}

/// The word as it was before; the last arrival of a phase starts the next one.
FunctionLowering::Value* FunctionLowering::arrive(Value* at, Value* count, bool is_leaving) {
  Value* word = barrier_word(at);
  Value* expected = b_.CreateAnd(b_.CreateLShr(word, kCountBits), kCountMask);
  if (is_leaving) expected = b_.CreateSub(expected, count);
  Value* pending = b_.CreateAnd(b_.CreateSub(word, count), kCountMask);
  Value* phase = b_.CreateLShr(word, 2 * kCountBits);
  Value* is_complete = b_.CreateICmpEQ(pending, b_.getInt64(0));
  phase = b_.CreateAdd(phase, b_.CreateZExt(is_complete, b_.getInt64Ty()));
  pending = b_.CreateSelect(is_complete, expected, pending);
  Value* next = b_.CreateOr(b_.CreateShl(phase, 2 * kCountBits),
                            b_.CreateOr(b_.CreateShl(expected, kCountBits), pending));
  b_.CreateAlignedStore(next, at, llvm::Align(8), true);
  return word;
}

bool FunctionLowering::memory_barrier_object(const Instruction& i) {
  const Type u64{'u', 64};
  const auto count = [&](std::size_t k) {
    return k < i.operands.size()
               ? b_.CreateAnd(b_.CreateZExt(get_bits(i, i.operands[k], 32), b_.getInt64Ty()),
                              kCountMask)
               : b_.getInt64(1);
  };
  if (i.has("init") && i.operands.size() == 2) {
    Value* threads = count(1);
    b_.CreateAlignedStore(b_.CreateOr(b_.CreateShl(threads, kCountBits), threads),
                          barrier_address(i, i.operands[0]), llvm::Align(8), true);
  } else if (i.has("inval")) {
    b_.CreateAlignedStore(b_.getInt64(0), barrier_address(i, i.operands[0]), llvm::Align(8), true);
  } else if ((i.has("arrive") || i.has("arrive_drop")) && i.operands.size() >= 2) {
    set(i, i.operands[0], arrive(barrier_address(i, i.operands[1]), count(2), i.has("arrive_drop")),
        u64);
  } else if ((i.has("test_wait") || i.has("try_wait")) && i.operands.size() >= 3) {
    Value* phase = b_.CreateLShr(barrier_word(barrier_address(i, i.operands[1])), 2 * kCountBits);
    Value* is_over =
        i.has("parity")
            ? b_.CreateICmpNE(
                  b_.CreateAnd(phase, 1),
                  b_.CreateAnd(b_.CreateZExt(get_bits(i, i.operands[2], 32), b_.getInt64Ty()), 1))
            : b_.CreateICmpNE(phase, b_.CreateLShr(get_bits(i, i.operands[2], 64), 2 * kCountBits));
    set(i, i.operands[0], is_over, Type{'p', 1});
  } else if (i.has("pending_count") && i.operands.size() == 2) {
    set(i, i.operands[0], b_.CreateAnd(get_bits(i, i.operands[1], 64), kCountMask), u64);
  } else {
    return false;
  }
  return true;
}

}  // namespace sluice::softgpu::lower
