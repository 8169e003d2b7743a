// Barriers and warp collectives: operands go to the thread's record, the thread suspends, and the
// scheduler (exec/block.cpp) resumes it with the result in the record.
#include "softgpu/exec/context.h"
#include "softgpu/lower/function.h"
#include "softgpu/lower/suspend.h"

namespace sluice::softgpu::lower {

FunctionLowering::Value* FunctionLowering::record_field(std::size_t offset_bytes) {
  return b_.CreateConstGEP1_64(b_.getInt8Ty(), record_, offset_bytes);
}

FunctionLowering::Value* FunctionLowering::record_u32(std::size_t offset_bytes) {
  return b_.CreateLoad(b_.getInt32Ty(), record_field(offset_bytes));
}

void FunctionLowering::suspend(const Instruction& i, Wait wait, std::uint32_t operation,
                               Value* mask, Value* count, Value* b, Value* a) {
  const auto put = [&](std::size_t offset_bytes, Value* value) {
    if (value != nullptr) b_.CreateStore(value, record_field(offset_bytes));
  };
  put(offsetof(ThreadRecord, wait), b_.getInt32(static_cast<std::uint32_t>(wait)));
  put(offsetof(ThreadRecord, operation), b_.getInt32(operation));
  put(offsetof(ThreadRecord, line), b_.getInt32(static_cast<std::uint32_t>(i.line)));
  put(offsetof(ThreadRecord, site), b_.getInt32(state_.sites++));
  put(offsetof(ThreadRecord, mask), mask);
  put(offsetof(ThreadRecord, count), count);
  put(offsetof(ThreadRecord, b), b);
  put(offsetof(ThreadRecord, a), a);
  b_.CreateCall(suspend_marker(state_.llvm));
}

bool FunctionLowering::collective(const Instruction& i) {
  const std::string& op = i.opcode;
  if (op == "bar" || op == "barrier") return i.has("warp") ? warp_barrier(i) : barrier(i);
  if (op == "shfl") return shuffle(i);
  if (op == "vote") return vote(i);
  if (op == "match") return match(i);
  if (op == "redux") return reduce(i);
  if (op == "nanosleep") {
    suspend(i, Wait::kYield, 0, nullptr, nullptr, nullptr, nullptr);
    return true;
  }
  if (op == "activemask" || op == "elect") {
    const bool is_elect = op == "elect";
    Value* mask = is_elect ? get_bits(i, i.operands[1], 32) : nullptr;
    suspend_lanes(i, is_elect ? WarpOperation::kElect : WarpOperation::kActiveMask, mask, nullptr,
                  nullptr, nullptr);
    set_result(i, i.operands[0], 32);
    return true;
  }
  return false;
}

/// With a mask: the lanes it names. Without: those that get here together.
void FunctionLowering::suspend_lanes(const Instruction& i, WarpOperation operation, Value* mask,
                                     Value* c, Value* b, Value* a) {
  suspend(i, mask != nullptr ? Wait::kWarp : Wait::kConverge, static_cast<std::uint32_t>(operation),
          mask, c, b, a);
}

/// d or d|p or _|p.
void FunctionLowering::set_result(const Instruction& i, const Operand& o, unsigned bits) {
  const bool is_pair = o.kind == Operand::Kind::kPair;
  Value* result = b_.CreateLoad(b_.getInt64Ty(), record_field(offsetof(ThreadRecord, result)));
  set(i, is_pair ? o.parts[0] : o, b_.CreateTrunc(result, b_.getIntNTy(bits)),
      Type{'b', static_cast<std::uint16_t>(bits)});
  if (is_pair) set_predicate_result(i, o.parts[1]);
}

void FunctionLowering::set_predicate_result(const Instruction& i, const Operand& o) {
  Value* holds = b_.CreateICmpNE(record_u32(offsetof(ThreadRecord, predicate)), b_.getInt32(0));
  set(i, o, holds, Type{'p', 1});
}

bool FunctionLowering::warp_barrier(const Instruction& i) {
  if (i.opcode != "bar" || !i.has("sync") || i.operands.size() != 1) return false;
  suspend_lanes(i, WarpOperation::kSync, get_bits(i, i.operands[0], 32), nullptr, nullptr, nullptr);
  b_.CreateFence(llvm::AtomicOrdering::AcquireRelease);
  return true;
}

/// bar{.cta}.sync a{, b}; .arrive a, b; .red.popc d, a{, b}, {!}c; .red.and/or p, a{, b}, {!}c
bool FunctionLowering::barrier(const Instruction& i) {
  if (i.has("cluster")) return false;
  const bool is_reduction = i.has("red");
  const std::size_t first = is_reduction ? 1 : 0;
  const std::size_t last = i.operands.size() - (is_reduction ? 1 : 0);
  if (last <= first) return false;
  Value* number = get_bits(i, i.operands[first], 32);
  Value* count = last > first + 1 ? get_bits(i, i.operands[first + 1], 32) : b_.getInt32(0);
  BarrierKind kind = BarrierKind::kSync;
  if (i.has("arrive")) kind = BarrierKind::kArrive;
  if (is_reduction)
    kind = i.has("popc") ? BarrierKind::kPopc : i.has("and") ? BarrierKind::kAnd : BarrierKind::kOr;
  Value* predicate = b_.getInt32(0);
  if (is_reduction) predicate = b_.CreateZExt(get_predicate(i, i.operands.back()), b_.getInt32Ty());
  suspend(i, Wait::kBarrier, static_cast<std::uint32_t>(kind), number, count, predicate, nullptr);
  if (kind == BarrierKind::kPopc) set_result(i, i.operands[0], 32);
  if (kind == BarrierKind::kAnd || kind == BarrierKind::kOr) set_predicate_result(i, i.operands[0]);
  return true;
}

/// shfl{.sync}.mode.b32 d|p, a, b, c{, membermask}
bool FunctionLowering::shuffle(const Instruction& i) {
  const bool is_sync = i.has("sync");
  if (i.operands.size() != (is_sync ? 5u : 4u)) return false;
  WarpOperation operation = WarpOperation::kShuffleIndex;
  if (i.has("up")) operation = WarpOperation::kShuffleUp;
  if (i.has("down")) operation = WarpOperation::kShuffleDown;
  if (i.has("bfly")) operation = WarpOperation::kShuffleXor;
  Value* a = b_.CreateZExt(get_bits(i, i.operands[1], 32), b_.getInt64Ty());
  suspend_lanes(i, operation, is_sync ? get_bits(i, i.operands[4], 32) : nullptr,
                get_bits(i, i.operands[3], 32), get_bits(i, i.operands[2], 32), a);
  set_result(i, i.operands[0], 32);
  return true;
}

/// vote{.sync}.mode.pred d, {!}a{, membermask}; vote{.sync}.ballot.b32 d, {!}a{, membermask}
bool FunctionLowering::vote(const Instruction& i) {
  const bool is_sync = i.has("sync");
  if (i.operands.size() != (is_sync ? 3u : 2u)) return false;
  WarpOperation operation = WarpOperation::kBallot;
  if (i.has("all")) operation = WarpOperation::kVoteAll;
  if (i.has("any")) operation = WarpOperation::kVoteAny;
  if (i.has("uni")) operation = WarpOperation::kVoteUniform;
  Value* b = b_.CreateZExt(get_predicate(i, i.operands[1]), b_.getInt32Ty());
  suspend_lanes(i, operation, is_sync ? get_bits(i, i.operands[2], 32) : nullptr, nullptr, b,
                nullptr);
  if (operation == WarpOperation::kBallot)
    set_result(i, i.operands[0], 32);
  else
    set_predicate_result(i, i.operands[0]);
  return true;
}

/// match.any.sync.type d, a, membermask; match.all.sync.type d{|p}, a, membermask
bool FunctionLowering::match(const Instruction& i) {
  const auto type = last_type(i);
  if (!type || !i.has("sync") || i.operands.size() != 3) return false;
  Value* a = b_.CreateZExt(get_bits(i, i.operands[1], type->bits), b_.getInt64Ty());
  suspend_lanes(i, i.has("all") ? WarpOperation::kMatchAll : WarpOperation::kMatchAny,
                get_bits(i, i.operands[2], 32), nullptr, nullptr, a);
  set_result(i, i.operands[0], 32);
  return true;
}

/// redux.sync.op.type d, a, membermask
bool FunctionLowering::reduce(const Instruction& i) {
  const auto type = last_type(i);
  if (!type || type->is_float() || !i.has("sync")) return false;
  WarpOperation operation = WarpOperation::kReduceAdd;
  if (i.has("min"))
    operation = type->is_signed() ? WarpOperation::kReduceMinSigned : WarpOperation::kReduceMin;
  if (i.has("max"))
    operation = type->is_signed() ? WarpOperation::kReduceMaxSigned : WarpOperation::kReduceMax;
  if (i.has("and")) operation = WarpOperation::kReduceAnd;
  if (i.has("or")) operation = WarpOperation::kReduceOr;
  if (i.has("xor")) operation = WarpOperation::kReduceXor;
  Value* a = b_.CreateZExt(get_bits(i, i.operands[1], 32), b_.getInt64Ty());
  suspend_lanes(i, operation, get_bits(i, i.operands[2], 32), nullptr, nullptr, a);
  set_result(i, i.operands[0], 32);
  return true;
}

}  // namespace sluice::softgpu::lower
