// cvt.
#include "softgpu/lower/function.h"

#include <llvm/IR/Intrinsics.h>

namespace sluice::softgpu::lower {

bool FunctionLowering::convert(const Instruction& i) {
  if (i.has("pack")) return pack(i);
  for (const char* narrow : {"tf32", "rna", "satfinite", "e4m3x2", "e5m2x2"})
    if (i.has(narrow)) return convert_narrow(i);
  const auto from = last_type(i);
  const auto to = last_type(i, 1);
  if (!from || !to || from->lanes != 1) return false;
  const Type f32{'f', 32};
  if (to->kind == 'h' || to->lanes == 2 || (to->kind == 'f' && to->bits == 16 && *from == f32))
    return convert_to_half(i, *from, *to);
  if (i.operands.size() != 2 || i.has("relu")) return false;
  Value* out = nullptr;
  if (from->kind == 'h') {
    out = widen_half(i, get_bits(i, i.operands[1], 16), *from);
    if (!to->is_float()) {
      set(i, i.operands[0], float_to_integer(i, out, f32, *to), *to);
      return true;
    }
    if (*to != f32) return false;
    set(i, i.operands[0], finish_float(i, *to, out), *to);
    return true;
  }
  Value* v =
      from->is_float() ? float_operand(i, i.operands[1], *from) : get(i, i.operands[1], *from);
  if (from->is_float() && to->is_float())
    out = float_to_float(i, v, *from, *to);
  else if (from->is_float())
    out = float_to_integer(i, v, *from, *to);
  else if (to->is_float())
    out = integer_to_float(i, v, *from, *to);
  else
    out = integer_to_integer(v, *from, *to, i.has("sat"));
  set(i, i.operands[0], out, *to);
  return true;
}

/// cvt.{rn,rz}{.relu}.{f16,bf16}.f32 d, a and the pairs d, a, b, where a becomes the upper half.
bool FunctionLowering::convert_to_half(const Instruction& i, Type from, Type to) {
  if (from != Type{'f', 32} || i.operands.size() != to.lanes + 1u || i.has("rm") || i.has("rp") ||
      i.has("rni") || i.has("rzi") || i.has("rmi") || i.has("rpi"))
    return false;
  const Type lane{to.kind, 16};
  Value* out = b_.getIntN(to.bits, 0);
  for (unsigned k = 0; k < to.lanes; ++k) {
    Value* bits = narrow_half(i, float_operand(i, i.operands[to.lanes - k], from), lane);
    out = b_.CreateOr(out, b_.CreateShl(b_.CreateZExt(bits, out->getType()), 16 * k));
  }
  set(i, i.operands[0], out, Type{'b', to.bits});
  return true;
}

/// cvt.pack.sat.TO.s32 d, a, b (16 bits each) and cvt.pack.sat.TO.s32.b32 d, a, b, c (8 bits each,
/// above them c's lower half).
bool FunctionLowering::pack(const Instruction& i) {
  const std::size_t extra = i.operands.size() == 4 ? 1 : 0;
  const auto from = last_type(i, extra);
  const auto to = last_type(i, extra + 1);
  if (!from || !to || from->is_float() || from->bits != 32 || to->bits != (extra == 1 ? 8 : 16))
    return false;
  auto* u32 = b_.getInt32Ty();
  const auto half = [&](std::size_t k) {
    return b_.CreateZExt(integer_to_integer(get(i, i.operands[k], *from), *from, *to, true), u32);
  };
  Value* out = b_.CreateOr(b_.CreateShl(half(1), to->bits), half(2));
  if (extra == 1) out = b_.CreateOr(out, b_.CreateShl(get_bits(i, i.operands[3], 32), 16));
  set(i, i.operands[0], out, Type{'b', 32});
  return true;
}

namespace {
/// The rounding to an integral value that a modifier asks for.
llvm::Intrinsic::ID integral_rounding(const ptx::Instruction& i) {
  if (i.has("rni")) return llvm::Intrinsic::roundeven;
  if (i.has("rzi")) return llvm::Intrinsic::trunc;
  if (i.has("rmi")) return llvm::Intrinsic::floor;
  if (i.has("rpi")) return llvm::Intrinsic::ceil;
  return llvm::Intrinsic::not_intrinsic;
}
}  // namespace

FunctionLowering::Value* FunctionLowering::float_to_integer(const Instruction& i, Value* v,
                                                            Type from, Type to) {
  const auto rounding = integral_rounding(i);
  if (rounding != llvm::Intrinsic::not_intrinsic) v = b_.CreateUnaryIntrinsic(rounding, v);
  auto* integer = b_.getIntNTy(to.bits);
  const auto id = to.is_signed() ? llvm::Intrinsic::fptosi_sat : llvm::Intrinsic::fptoui_sat;
  Value* out = b_.CreateIntrinsic(id, {integer, v->getType()}, {v});
  // Out of range saturates. NaN gives 0, or only the highest bit where 64 bits are involved (PTX
  // ISA, "cvt").
  if (from.bits != 64 && to.bits != 64) return out;
  return b_.CreateSelect(b_.CreateFCmpUNO(v, v), b_.getInt(llvm::APInt::getSignedMinValue(to.bits)),
                         out);
}

FunctionLowering::Value* FunctionLowering::integer_to_float(const Instruction& i, Value* v,
                                                            Type from, Type to) {
  for (const char* mode : {"rz", "rm", "rp"}) {
    if (!i.has(mode)) continue;
    if (to.bits == 16) {
      unsupported(i, "directed rounding to f16");
      break;
    }
    Value* wide =
        from.is_signed() ? b_.CreateSExt(v, b_.getInt64Ty()) : b_.CreateZExt(v, b_.getInt64Ty());
    return finish_float(
        i, to,
        call_helper(std::string("softgpu_cvt_") + mode + "_" + (from.is_signed() ? "s64" : "u64") +
                        (to.bits == 64 ? "_f64" : "_f32"),
                    llvm_type(to), {wide}));
  }
  return finish_float(
      i, to,
      from.is_signed() ? b_.CreateSIToFP(v, llvm_type(to)) : b_.CreateUIToFP(v, llvm_type(to)));
}

FunctionLowering::Value* FunctionLowering::float_to_float(const Instruction& i, Value* v, Type from,
                                                          Type to) {
  const auto rounding = integral_rounding(i);
  if (rounding != llvm::Intrinsic::not_intrinsic) v = b_.CreateUnaryIntrinsic(rounding, v);
  if (to.bits > from.bits) v = b_.CreateFPExt(v, llvm_type(to));
  if (to.bits < from.bits) {
    const char* directed = i.has("rz") ? "rz" : i.has("rm") ? "rm" : i.has("rp") ? "rp" : nullptr;
    if (directed != nullptr && from.bits == 64 && to.bits == 32)
      v = call_helper(std::string("softgpu_cvt_") + directed + "_f64_f32", b_.getFloatTy(), {v});
    else if (directed != nullptr)
      unsupported(i, "directed rounding to f16");
    else
      v = b_.CreateFPTrunc(v, llvm_type(to));
  }
  return finish_float(i, to, v);
}

FunctionLowering::Value* FunctionLowering::integer_to_integer(Value* v, Type from, Type to,
                                                              bool is_saturating) {
  auto* wide = b_.getIntNTy(128);
  Value* x = from.is_signed() ? b_.CreateSExt(v, wide) : b_.CreateZExt(v, wide);
  if (is_saturating) {
    const llvm::APInt low =
        to.is_signed() ? llvm::APInt::getSignedMinValue(to.bits).sext(128) : llvm::APInt(128, 0);
    const llvm::APInt high = to.is_signed() ? llvm::APInt::getSignedMaxValue(to.bits).sext(128)
                                            : llvm::APInt::getMaxValue(to.bits).zext(128);
    x = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, x, b_.getInt(low));
    x = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, x, b_.getInt(high));
  }
  return b_.CreateTrunc(x, b_.getIntNTy(to.bits));
}

}  // namespace sluice::softgpu::lower
