// f16, bf16 and packed pairs of them: every lane is widened to f32, computed, and rounded back. For
// add, sub and mul that rounds as if once, because f32 has more than twice the bits; fma goes
// through wider types (helpers) for the same reason.
#include "softgpu/lower/function.h"

#include <llvm/IR/Intrinsics.h>

namespace sluice::softgpu::lower {

/// 16 bits to f32; .ftz makes subnormals zero.
FunctionLowering::Value* FunctionLowering::widen_half(const Instruction& i, Value* bits,
                                                      Type lane) {
  Value* out = nullptr;
  if (lane.kind == 'h') {  // bf16 is the upper half of an f32
    out = b_.CreateBitCast(b_.CreateShl(b_.CreateZExt(bits, b_.getInt32Ty()), 16), b_.getFloatTy());
  } else {
    out = b_.CreateFPExt(b_.CreateBitCast(bits, b_.getHalfTy()), b_.getFloatTy());
  }
  if (!i.has("ftz")) return out;
  llvm::Constant* smallest =
      llvm::ConstantFP::get(b_.getFloatTy(), lane.kind == 'h' ? 0x1p-126 : 0x1p-14);
  Value* is_tiny = b_.CreateFCmpOLT(b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, out), smallest);
  Value* zero = b_.CreateBinaryIntrinsic(llvm::Intrinsic::copysign,
                                         llvm::ConstantFP::get(b_.getFloatTy(), 0.0), out);
  return b_.CreateSelect(is_tiny, zero, out);
}

/// f32 to 16 bits, to nearest even or by .rz, after .relu and .sat.
FunctionLowering::Value* FunctionLowering::narrow_half(const Instruction& i, Value* value,
                                                       Type lane) {
  llvm::Constant* zero = llvm::ConstantFP::get(b_.getFloatTy(), 0.0);
  if (i.has("relu"))
    value = b_.CreateSelect(b_.CreateFCmpOLT(value, zero), zero, value);  // a NaN stays one
  if (i.has("sat")) value = finish_float(i, Type{'f', 32}, value);
  if (lane.kind == 'h') {
    if (!i.has("rz")) return call_helper("softgpu_f32_to_bf16", b_.getInt16Ty(), {value});
    return b_.CreateTrunc(b_.CreateLShr(b_.CreateBitCast(value, b_.getInt32Ty()), 16),
                          b_.getInt16Ty());
  }
  Value* nearest = b_.CreateFPTrunc(value, b_.getHalfTy());
  Value* bits = b_.CreateBitCast(nearest, b_.getInt16Ty());
  if (!i.has("rz")) return bits;
  // One step back where rounding to nearest went away from zero (that makes the largest number of
  // an infinity as well).
  Value* back =
      b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, b_.CreateFPExt(nearest, b_.getFloatTy()));
  Value* is_beyond = b_.CreateFCmpOGT(back, b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, value));
  return b_.CreateSub(bits, b_.CreateZExt(is_beyond, b_.getInt16Ty()));
}

/// The lanes of an operand as f32, the lowest first.
std::vector<FunctionLowering::Value*> FunctionLowering::half_lanes(const Instruction& i,
                                                                   const Operand& o, Type type) {
  Value* all = get_bits(i, o, type.bits);
  std::vector<Value*> out;
  for (unsigned k = 0; k < type.lanes; ++k)
    out.push_back(widen_half(i, b_.CreateTrunc(b_.CreateLShr(all, 16 * k), b_.getInt16Ty()),
                             Type{type.kind, 16}));
  return out;
}

FunctionLowering::Value* FunctionLowering::half_lane(const Instruction& i,
                                                     const std::vector<Value*>& args, Type lane) {
  const std::string& op = i.opcode;
  if (op == "fma" && args.size() == 3) {
    const char* name = lane.kind == 'h' ? "softgpu_fma_bf16" : "softgpu_fma_f16";
    return call_helper(name, b_.getFloatTy(), args);
  }
  if (args.size() == 2) {
    if (op == "add") return b_.CreateFAdd(args[0], args[1]);
    if (op == "sub") return b_.CreateFSub(args[0], args[1]);
    if (op == "mul") return b_.CreateFMul(args[0], args[1]);
    if (op == "min" || op == "max") return extremum(i, args[0], args[1]);
  }
  if (args.size() == 1) {
    if (op == "ex2" || op == "tanh")
      return call_helper("softgpu_" + op + "_f32", b_.getFloatTy(), args);
    if (op == "neg") return b_.CreateFNeg(args[0]);
    if (op == "abs") return b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, args[0]);
  }
  return nullptr;
}

bool FunctionLowering::half_arithmetic(const Instruction& i, Type type) {
  if (i.has("rz") || i.has("rm") || i.has("rp")) return false;  // no such instruction
  std::vector<std::vector<Value*>> operands;
  for (std::size_t k = 1; k < i.operands.size(); ++k)
    operands.push_back(half_lanes(i, i.operands[k], type));
  Value* out = b_.getIntN(type.bits, 0);
  for (unsigned lane = 0; lane < type.lanes; ++lane) {
    std::vector<Value*> args;
    for (const auto& operand : operands) args.push_back(operand[lane]);
    Value* value = half_lane(i, args, Type{type.kind, 16});
    if (value == nullptr) return false;
    Value* bits = narrow_half(i, value, Type{type.kind, 16});
    out = b_.CreateOr(out, b_.CreateShl(b_.CreateZExt(bits, out->getType()), 16 * lane));
  }
  set(i, i.operands[0], out, Type{'b', type.bits});
  return true;
}

}  // namespace sluice::softgpu::lower
