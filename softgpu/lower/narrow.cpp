// cvt to and from formats that no register type names: tf32, and 8-bit floats in pairs.
#include "softgpu/lower/function.h"

#include <llvm/IR/Intrinsics.h>

namespace sluice::softgpu::lower {
namespace {

/// An 8-bit float: its largest number's bits, mantissa bits, exponent bias.
struct Float8 {
  std::uint32_t highest, mantissa, bias;
};
constexpr Float8 kE4m3{0x7E, 3, 7};
constexpr Float8 kE5m2{0x7B, 2, 15};
constexpr std::uint32_t kNan8 = 0x7F;

}  // namespace

bool FunctionLowering::convert_narrow(const Instruction& i) {
  if (i.has("tf32")) return convert_to_tf32(i);
  if (i.has("rna") || i.has("rz") || i.has("rm") || i.has("rp") || !i.has("rn")) return false;
  const auto type = last_type(i);
  if (!type) return false;
  return i.mods.back() == "f32" || i.mods.back() == "f16x2" ? convert_to_float8(i, *type)
                                                            : convert_from_float8(i, *type);
}

/// cvt.{rna,rn,rz}{.relu}.tf32.f32: ten bits of mantissa stay.
bool FunctionLowering::convert_to_tf32(const Instruction& i) {
  if (i.mods.back() != "f32" || i.has("satfinite") || i.operands.size() != 2) return false;
  Value* v = get(i, i.operands[1], Type{'f', 32});
  if (i.has("relu")) {
    llvm::Constant* zero = llvm::ConstantFP::get(b_.getFloatTy(), 0.0);
    v = b_.CreateSelect(b_.CreateFCmpOLT(v, zero), zero, v);
  }
  Value* bits = b_.CreateBitCast(v, b_.getInt32Ty());
  Value* up = b_.getInt32(0);
  if (i.has("rna")) up = b_.getInt32(0x1000);
  if (i.has("rn")) up = b_.CreateAdd(b_.getInt32(0xFFF), b_.CreateAnd(b_.CreateLShr(bits, 13), 1));
  Value* rounded = b_.CreateAnd(b_.CreateAdd(bits, up), ~std::uint64_t{0x1FFF} & 0xFFFFFFFF);
  rounded = b_.CreateSelect(b_.CreateFCmpUNO(v, v), b_.getInt32(0x7FFFFFFF), rounded);
  set(i, i.operands[0], rounded, Type{'b', 32});
  return true;
}

/// f32 to the eight bits of the nearest number, ties to even; what is larger becomes the largest.
FunctionLowering::Value* FunctionLowering::to_float8(const Instruction& i, Value* v, bool is_e4m3) {
  const Float8& format = is_e4m3 ? kE4m3 : kE5m2;
  auto* u32 = b_.getInt32Ty();
  if (i.has("relu")) {
    llvm::Constant* zero = llvm::ConstantFP::get(b_.getFloatTy(), 0.0);
    v = b_.CreateSelect(b_.CreateFCmpOLT(v, zero), zero, v);
  }
  Value* magnitude = b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, v);
  Value* bits = b_.CreateBitCast(magnitude, u32);
  const std::uint32_t dropped = 23 - format.mantissa;
  Value* is_odd = b_.CreateAnd(b_.CreateLShr(bits, dropped), 1);
  Value* normal = b_.CreateLShr(
      b_.CreateAdd(bits, b_.CreateAdd(b_.getInt32((1u << (dropped - 1)) - 1), is_odd)), dropped);
  normal = b_.CreateSub(normal, b_.getInt32((127 - format.bias) << format.mantissa));
  // Below the normal numbers all have one distance, that of f32s near this one.
  const std::uint32_t near = (127 + 24 - format.bias - format.mantissa) << 23;
  Value* shifted = b_.CreateFAdd(magnitude, b_.CreateBitCast(b_.getInt32(near), b_.getFloatTy()));
  Value* subnormal = b_.CreateSub(b_.CreateBitCast(shifted, u32), b_.getInt32(near));
  Value* is_tiny = b_.CreateICmpULT(bits, b_.getInt32((128 - format.bias) << 23));
  Value* out = b_.CreateSelect(is_tiny, subnormal, normal);
  out = b_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, out, b_.getInt32(format.highest));
  Value* sign = b_.CreateAnd(b_.CreateLShr(b_.CreateBitCast(v, u32), 24), 0x80);
  out = b_.CreateOr(out, sign);
  return b_.CreateSelect(b_.CreateFCmpUNO(v, v), b_.getInt32(kNan8), out);
}

/// cvt.rn.satfinite{.relu}.{e4m3x2,e5m2x2}.f32 d, a, b (a becomes the upper half) and .f16x2 d, a
bool FunctionLowering::convert_to_float8(const Instruction& i, Type from) {
  const bool is_e4m3 = i.has("e4m3x2");
  if (!i.has("satfinite") || is_e4m3 == i.has("e5m2x2")) return false;
  std::vector<Value*> values;
  if (from.lanes == 2 && i.operands.size() == 2)
    values = half_lanes(i, i.operands[1], from);
  else if (from == Type{'f', 32} && i.operands.size() == 3)
    values = {get(i, i.operands[2], from), get(i, i.operands[1], from)};
  else
    return false;
  Value* out = b_.CreateOr(to_float8(i, values[0], is_e4m3),
                           b_.CreateShl(to_float8(i, values[1], is_e4m3), 8));
  set(i, i.operands[0], b_.CreateTrunc(out, b_.getInt16Ty()), Type{'b', 16});
  return true;
}

/// cvt.rn{.relu}.f16x2.{e4m3x2,e5m2x2} d, a: every number is also an f16.
bool FunctionLowering::convert_from_float8(const Instruction& i, Type to) {
  const bool is_e4m3 = i.mods.back() == "e4m3x2";
  if (to != Type{'f', 32, 2} || i.operands.size() != 2 || (!is_e4m3 && i.mods.back() != "e5m2x2"))
    return false;
  Value* both = get_bits(i, i.operands[1], 16);
  Value* out = b_.getInt32(0);
  for (unsigned lane = 0; lane < 2; ++lane) {
    Value* byte = b_.CreateAnd(b_.CreateLShr(both, 8 * lane), 0xFF);
    Value* half = b_.CreateShl(byte, 8);  // e5m2 is an f16's upper half
    if (is_e4m3) {
      Value* sign = b_.CreateAnd(half, 0x8000);
      Value* digits = b_.CreateAnd(byte, 0x7F);
      Value* small = b_.CreateFPExt(b_.CreateBitCast(b_.CreateShl(digits, 7), b_.getHalfTy()),
                                    b_.getFloatTy());
      Value* value = b_.CreateFMul(small, llvm::ConstantFP::get(b_.getFloatTy(), 256.0));
      half = b_.CreateBitCast(b_.CreateFPTrunc(value, b_.getHalfTy()), b_.getInt16Ty());
      half = b_.CreateOr(half, sign);
      half =
          b_.CreateSelect(b_.CreateICmpEQ(digits, b_.getInt16(kNan8)), b_.getInt16(0x7FFF), half);
    }
    if (i.has("relu")) {
      Value* is_nan = b_.CreateICmpUGT(b_.CreateAnd(half, 0x7FFF), b_.getInt16(0x7C00));
      Value* stays = b_.CreateOr(is_nan, b_.CreateICmpSGE(half, b_.getInt16(0)));
      half = b_.CreateSelect(stays, half, b_.getInt16(0));
    }
    out = b_.CreateOr(out, b_.CreateShl(b_.CreateZExt(half, b_.getInt32Ty()), 16 * lane));
  }
  set(i, i.operands[0], out, Type{'b', 32});
  return true;
}

}  // namespace sluice::softgpu::lower
