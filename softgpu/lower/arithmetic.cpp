// Integer, floating-point and bit instructions.
#include "softgpu/lower/function.h"

#include <llvm/IR/Intrinsics.h>

namespace sluice::softgpu::lower {
namespace {

using llvm::Intrinsic::ID;

/// Directed rounding named by a modifier, "" for to-nearest-even.
std::string direction(const ptx::Instruction& i) {
  for (const char* mode : {"rz", "rm", "rp"})
    if (i.has(mode)) return mode;
  return "";
}

std::string float_suffix(ptx::Type type) {
  return type.bits == 64 ? "f64" : "f32";
}

}  // namespace

bool FunctionLowering::arithmetic(const Instruction& i) {
  if (bits(i) || approximate(i)) return true;
  const auto type = last_type(i);
  if (!type) return false;
  if (i.opcode == "mov") {
    set(i, i.operands[0], get_bits(i, i.operands[1], type->bits), *type);
    return true;
  }
  if (type->is_float() && type->bits / type->lanes == 16) return half_arithmetic(i, *type);
  return type->is_float() ? float_arithmetic(i, *type) : integer_arithmetic(i, *type);
}

FunctionLowering::Value* FunctionLowering::divide(Value* a, Value* b, Type type,
                                                  bool is_remainder) {
  // x86 traps where PTX has an unspecified result: divisor 0, and the most negative number by -1.
  Value* zero = b_.getIntN(type.bits, 0);
  Value* is_zero = b_.CreateICmpEQ(b, zero);
  Value* divisor = b_.CreateSelect(is_zero, b_.getIntN(type.bits, 1), b);
  if (!type.is_signed()) {
    Value* out = is_remainder ? b_.CreateURem(a, divisor) : b_.CreateUDiv(a, divisor);
    return b_.CreateSelect(is_zero, is_remainder ? a : b_.CreateNot(zero), out);
  }
  Value* minimum = b_.getInt(llvm::APInt::getSignedMinValue(type.bits));
  Value* overflows =
      b_.CreateAnd(b_.CreateICmpEQ(a, minimum), b_.CreateICmpEQ(b, b_.CreateNot(zero)));
  divisor = b_.CreateSelect(overflows, b_.getIntN(type.bits, 1), divisor);
  Value* out = is_remainder ? b_.CreateSRem(a, divisor) : b_.CreateSDiv(a, divisor);
  if (is_remainder) out = b_.CreateSelect(overflows, zero, out);
  return b_.CreateSelect(is_zero, is_remainder ? a : b_.CreateNot(zero), out);
}

FunctionLowering::Value* FunctionLowering::shift(const Instruction& i, Value* value, Value* amount,
                                                 Type type) {
  Value* limit = b_.getInt32(type.bits);
  Value* in_range = b_.CreateICmpULT(amount, limit);
  Value* clamped = b_.CreateZExtOrTrunc(
      b_.CreateSelect(in_range, amount, b_.getInt32(type.bits - 1u)), value->getType());
  if (i.opcode == "shr" && type.is_signed()) return b_.CreateAShr(value, clamped);
  Value* out = i.opcode == "shl" ? b_.CreateShl(value, clamped) : b_.CreateLShr(value, clamped);
  return b_.CreateSelect(in_range, out, b_.getIntN(type.bits, 0));
}

void FunctionLowering::wide_multiply(const Instruction& i, Type type, bool is_mad) {
  auto* wide = b_.getIntNTy(type.bits * 2u);
  const auto extend = [&](const Operand& o) {
    Value* v = get(i, o, type);
    return type.is_signed() ? b_.CreateSExt(v, wide) : b_.CreateZExt(v, wide);
  };
  Value* product = b_.CreateMul(extend(i.operands[1]), extend(i.operands[2]));
  if (i.has("wide")) {
    const Type out{type.kind, static_cast<std::uint16_t>(type.bits * 2u)};
    if (is_mad) product = b_.CreateAdd(product, get(i, i.operands[3], out));
    return set(i, i.operands[0], product, out);
  }
  Value* high = b_.CreateTrunc(b_.CreateLShr(product, type.bits), b_.getIntNTy(type.bits));
  if (is_mad && i.has("sat"))
    high = b_.CreateBinaryIntrinsic(llvm::Intrinsic::sadd_sat, high, get(i, i.operands[3], type));
  else if (is_mad)
    high = b_.CreateAdd(high, get(i, i.operands[3], type));
  set(i, i.operands[0], high, type);
}

/// add.cc addc sub.cc subc mad.lo.cc mad.hi.cc madc
void FunctionLowering::carry(const Instruction& i, Type type) {
  auto* wide = b_.getIntNTy(type.bits + 2u);
  const bool is_subtract = i.opcode.starts_with("sub");
  const bool takes = i.opcode == "addc" || i.opcode == "subc" || i.opcode == "madc";
  const bool gives = i.has("cc");
  Value* a = get(i, i.operands[1], type);
  Value* b = get(i, i.operands[2], type);
  if (i.opcode.starts_with("mad")) {
    auto* twice = b_.getIntNTy(type.bits * 2u);
    const auto extend = [&](Value* v) {
      return type.is_signed() ? b_.CreateSExt(v, twice) : b_.CreateZExt(v, twice);
    };
    Value* product = b_.CreateMul(extend(a), extend(b));
    if (i.has("hi")) product = b_.CreateLShr(product, type.bits);
    a = b_.CreateTrunc(product, b_.getIntNTy(type.bits));
    b = get(i, i.operands[3], type);
  }
  Value* in = takes ? b_.CreateZExt(b_.CreateLoad(b_.getInt1Ty(), carry_), wide)
                    : llvm::ConstantInt::get(wide, 0);
  Value* x = b_.CreateZExt(a, wide);
  Value* y = b_.CreateZExt(b, wide);
  Value* out =
      is_subtract ? b_.CreateSub(b_.CreateSub(x, y), in) : b_.CreateAdd(b_.CreateAdd(x, y), in);
  if (gives) b_.CreateStore(b_.CreateTrunc(b_.CreateLShr(out, type.bits), b_.getInt1Ty()), carry_);
  set(i, i.operands[0], b_.CreateTrunc(out, b_.getIntNTy(type.bits)), type);
}

bool FunctionLowering::integer_arithmetic(const Instruction& i, Type type) {
  const std::string& op = i.opcode;
  if (i.has("cc") || op == "addc" || op == "subc" || op == "madc") {
    if (op != "add" && op != "sub" && op != "addc" && op != "subc" && op != "mad" && op != "madc")
      return false;
    carry(i, type);
    return true;
  }
  if ((op == "mul" || op == "mad") && !i.has("lo")) {
    wide_multiply(i, type, op == "mad");
    return true;
  }
  const auto operand = [&](std::size_t k) { return get(i, i.operands[k], type); };
  const auto binary = [&](ID id) { return b_.CreateBinaryIntrinsic(id, operand(1), operand(2)); };
  Value* out = nullptr;
  if (op == "add" && i.has("sat"))
    out = binary(llvm::Intrinsic::sadd_sat);
  else if (op == "sub" && i.has("sat"))
    out = binary(llvm::Intrinsic::ssub_sat);
  else if (op == "add")
    out = b_.CreateAdd(operand(1), operand(2));
  else if (op == "sub")
    out = b_.CreateSub(operand(1), operand(2));
  else if (op == "mul")
    out = b_.CreateMul(operand(1), operand(2));
  else if (op == "mad")
    out = b_.CreateAdd(b_.CreateMul(operand(1), operand(2)), operand(3));
  else if (op == "div" || op == "rem")
    out = divide(operand(1), operand(2), type, op == "rem");
  else if (op == "neg")
    out = b_.CreateNeg(operand(1));
  else if (op == "abs")
    out = b_.CreateBinaryIntrinsic(llvm::Intrinsic::abs, operand(1), b_.getInt1(false));
  else if (op == "min")
    out = binary(type.is_signed() ? llvm::Intrinsic::smin : llvm::Intrinsic::umin);
  else if (op == "max")
    out = binary(type.is_signed() ? llvm::Intrinsic::smax : llvm::Intrinsic::umax);
  else if (op == "and")
    out = b_.CreateAnd(operand(1), operand(2));
  else if (op == "or")
    out = b_.CreateOr(operand(1), operand(2));
  else if (op == "xor")
    out = b_.CreateXor(operand(1), operand(2));
  else if (op == "not")
    out = b_.CreateNot(operand(1));
  else if (op == "cnot")
    out = b_.CreateZExt(b_.CreateICmpEQ(operand(1), b_.getIntN(type.bits, 0)),
                        b_.getIntNTy(type.bits));
  else if (op == "shl" || op == "shr")
    out = shift(i, operand(1), get_bits(i, i.operands[2], 32), type);
  else if (op == "sad") {
    const ID less = type.is_signed() ? llvm::Intrinsic::smin : llvm::Intrinsic::umin;
    const ID more = type.is_signed() ? llvm::Intrinsic::smax : llvm::Intrinsic::umax;
    out = b_.CreateAdd(operand(3), b_.CreateSub(binary(more), binary(less)));
  } else if (op == "mul24" || op == "mad24") {
    const auto low24 = [&](std::size_t k) {
      Value* v = b_.CreateShl(b_.CreateZExt(operand(k), b_.getInt64Ty()), 40);
      return type.is_signed() ? b_.CreateAShr(v, 40) : b_.CreateLShr(v, 40);
    };
    out = b_.CreateMul(low24(1), low24(2));
    out = b_.CreateTrunc(i.has("hi") ? b_.CreateLShr(out, 16) : out, b_.getInt32Ty());
    if (op == "mad24" && i.has("sat"))
      out = b_.CreateBinaryIntrinsic(llvm::Intrinsic::sadd_sat, out, operand(3));
    else if (op == "mad24")
      out = b_.CreateAdd(out, operand(3));
  }
  if (out == nullptr) return false;
  set(i, i.operands[0], out, type);
  return true;
}

FunctionLowering::Value* FunctionLowering::float_operand(const Instruction& i, const Operand& o,
                                                         Type type) {
  Value* v = get(i, o, type);
  if (!i.has("ftz") || type.bits != 32) return v;
  // .ftz: subnormal inputs become zeros of the same sign.
  Value* magnitude = b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, v);
  Value* is_tiny = b_.CreateFCmpOLT(magnitude, llvm::ConstantFP::get(b_.getFloatTy(), 0x1p-126));
  Value* zero = b_.CreateBinaryIntrinsic(llvm::Intrinsic::copysign,
                                         llvm::ConstantFP::get(b_.getFloatTy(), 0.0), v);
  return b_.CreateSelect(is_tiny, zero, v);
}

FunctionLowering::Value* FunctionLowering::finish_float(const Instruction& i, Type type,
                                                        Value* value) {
  if (i.has("ftz") && type.bits == 32) {
    Value* magnitude = b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, value);
    Value* is_tiny = b_.CreateFCmpOLT(magnitude, llvm::ConstantFP::get(b_.getFloatTy(), 0x1p-126));
    Value* zero = b_.CreateBinaryIntrinsic(llvm::Intrinsic::copysign,
                                           llvm::ConstantFP::get(b_.getFloatTy(), 0.0), value);
    value = b_.CreateSelect(is_tiny, zero, value);
  }
  if (!i.has("sat")) return value;
  // .sat: to [0, 1], NaN becomes 0 (the ordered comparison is false for it).
  llvm::Constant* zero = llvm::ConstantFP::get(value->getType(), 0.0);
  llvm::Constant* one = llvm::ConstantFP::get(value->getType(), 1.0);
  value = b_.CreateSelect(b_.CreateFCmpOGT(value, zero), value, zero);
  return b_.CreateSelect(b_.CreateFCmpOLT(value, one), value, one);
}

/// min and max: -0 is less than +0; a NaN loses against a number unless .NaN is given.
FunctionLowering::Value* FunctionLowering::extremum(const Instruction& i, Value* a, Value* b) {
  Value* sign = nullptr;
  if (i.has("xorsign")) {  // .xorsign.abs: of the magnitudes, with the exclusive or of the signs
    sign = b_.CreateFMul(b_.CreateBinaryIntrinsic(llvm::Intrinsic::copysign,
                                                  llvm::ConstantFP::get(a->getType(), 1.0), a),
                         b_.CreateBinaryIntrinsic(llvm::Intrinsic::copysign,
                                                  llvm::ConstantFP::get(a->getType(), 1.0), b));
    a = b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, a);
    b = b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, b);
  }
  Value* out = b_.CreateBinaryIntrinsic(
      i.opcode == "min" ? llvm::Intrinsic::minimum : llvm::Intrinsic::maximum, a, b);
  if (!i.has("NaN"))
    out =
        b_.CreateSelect(b_.CreateFCmpUNO(a, a), b, b_.CreateSelect(b_.CreateFCmpUNO(b, b), a, out));
  return sign == nullptr ? out : b_.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, out, sign);
}

/// The result under .rz/.rm/.rp by a helper that sets the rounding mode, else the given to-nearest
/// value.
FunctionLowering::Value* FunctionLowering::rounded(const Instruction& i, const char* op, Type type,
                                                   const std::vector<Value*>& args,
                                                   Value* nearest) {
  const std::string mode = direction(i);
  if (mode.empty()) return nearest;
  return call_helper("softgpu_" + std::string(op) + "_" + mode + "_" + float_suffix(type),
                     llvm_type(type), args);
}

bool FunctionLowering::float_arithmetic(const Instruction& i, Type type) {
  const std::string& op = i.opcode;
  const auto operand = [&](std::size_t k) { return float_operand(i, i.operands[k], type); };
  Value* out = nullptr;
  if (op == "add" || op == "sub" || op == "mul" || op == "div") {
    Value* a = operand(1);
    Value* b = operand(2);
    if (op == "sub") b = b_.CreateFNeg(b);
    Value* nearest = op == "mul"   ? b_.CreateFMul(a, b)
                     : op == "div" ? b_.CreateFDiv(a, b)
                                   : b_.CreateFAdd(a, b);
    out = rounded(i, op == "sub" ? "add" : op.c_str(), type, {a, b}, nearest);
  } else if (op == "fma" || op == "mad") {
    std::vector<Value*> args = {operand(1), operand(2), operand(3)};
    Value* nearest = direction(i).empty()
                         ? b_.CreateIntrinsic(llvm::Intrinsic::fma, {llvm_type(type)}, args)
                         : nullptr;
    out = rounded(i, "fma", type, args, nearest);
  } else if (op == "neg") {
    out = b_.CreateFNeg(operand(1));
  } else if (op == "abs") {
    out = b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, operand(1));
  } else if (op == "min" || op == "max") {
    out = extremum(i, operand(1), operand(2));
  } else if (op == "sqrt") {
    Value* a = operand(1);
    out = rounded(i, "sqrt", type, {a}, b_.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, a));
  } else if (op == "rcp") {
    Value* a = operand(1);
    Value* one = llvm::ConstantFP::get(llvm_type(type), 1.0);
    out = rounded(i, "div", type, {one, a}, b_.CreateFDiv(one, a));
  } else if (op == "copysign") {
    out = b_.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, operand(2), operand(1));
  } else if (op == "testp") {
    Value* a = operand(1);
    Value* magnitude = b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, a);
    Value* infinity = llvm::ConstantFP::getInfinity(a->getType());
    Value* smallest = llvm::ConstantFP::get(a->getType(), type.bits == 64 ? 0x1p-1022 : 0x1p-126);
    Value* zero = llvm::ConstantFP::get(a->getType(), 0.0);
    Value* p = nullptr;
    if (i.has("notanumber"))
      p = b_.CreateFCmpUNO(a, a);
    else if (i.has("number"))
      p = b_.CreateFCmpORD(a, a);
    else if (i.has("infinite"))
      p = b_.CreateFCmpOEQ(magnitude, infinity);
    else if (i.has("finite"))
      p = b_.CreateFCmpOLT(magnitude, infinity);
    else if (i.has("normal"))
      p = b_.CreateAnd(b_.CreateFCmpOGE(magnitude, smallest),
                       b_.CreateFCmpOLT(magnitude, infinity));
    else if (i.has("subnormal"))
      p = b_.CreateAnd(b_.CreateFCmpOLT(magnitude, smallest), b_.CreateFCmpOGT(magnitude, zero));
    if (p == nullptr) return false;
    set(i, i.operands[0], p, Type{'p', 1});
    return true;
  }
  if (out == nullptr) return false;
  set(i, i.operands[0], finish_float(i, type, out), type);
  return true;
}

/// The hardware's approximate functions, computed to full precision.
bool FunctionLowering::approximate(const Instruction& i) {
  static const char* const kNames[] = {"ex2", "lg2", "sin", "cos", "tanh", "rsqrt"};
  const auto type = last_type(i);
  for (const char* name : kNames) {
    if (i.opcode != name) continue;
    if (!type || !type->is_float()) return false;
    if (type->bits / type->lanes == 16) return half_arithmetic(i, *type);
    if (type->bits != 32 && i.opcode != "rsqrt") return false;
    Value* a = float_operand(i, i.operands[1], *type);
    Value* out =
        call_helper("softgpu_" + i.opcode + "_" + float_suffix(*type), llvm_type(*type), {a});
    set(i, i.operands[0], finish_float(i, *type, out), *type);
    return true;
  }
  return false;
}

}  // namespace sluice::softgpu::lower
