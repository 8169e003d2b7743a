// Video instructions on two or four lanes of a word: vadd2, vabsdiff4…
#include "softgpu/lower/function.h"

#include <llvm/IR/Intrinsics.h>

namespace sluice::softgpu::lower {

/// One lane, on 32 bits that hold every sum and difference of lanes.
FunctionLowering::Value* FunctionLowering::video_lane(const std::string& op, Value* a, Value* b) {
  if (op == "vadd") return b_.CreateAdd(a, b);
  if (op == "vsub") return b_.CreateSub(a, b);
  if (op == "vmin") return b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, a, b);
  if (op == "vmax") return b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, a, b);
  if (op == "vabsdiff")
    return b_.CreateBinaryIntrinsic(llvm::Intrinsic::abs, b_.CreateSub(a, b), b_.getFalse());
  if (op != "vavrg") return nullptr;
  Value* sum = b_.CreateAdd(a, b);  // halves are rounded away from zero
  Value* is_positive = b_.CreateICmpSGE(sum, b_.getInt32(0));
  return b_.CreateAShr(b_.CreateAdd(sum, b_.CreateZExt(is_positive, b_.getInt32Ty())), 1);
}

/// op{2,4}.dtype.atype.btype{.sat}{.add} d, a, b, c
bool FunctionLowering::video(const Instruction& i) {
  const char last = i.opcode.back();
  if (i.opcode[0] != 'v' || (last != '2' && last != '4')) return false;
  const auto out = last_type(i, 2);
  const auto type_a = last_type(i, 1);
  const auto type_b = last_type(i, 0);
  if (!out || !type_a || !type_b || out->bits != 32 || i.operands.size() != 4) return false;
  const unsigned lanes = last == '2' ? 2 : 4;
  const unsigned bits = 32 / lanes;
  auto* narrow = b_.getIntNTy(bits);
  const auto lane = [&](std::size_t operand, Type type, unsigned k) {
    Value* v =
        b_.CreateTrunc(b_.CreateLShr(get_bits(i, i.operands[operand], 32), k * bits), narrow);
    return type.is_signed() ? b_.CreateSExt(v, b_.getInt32Ty()) : b_.CreateZExt(v, b_.getInt32Ty());
  };
  Value* result = i.has("add") ? get_bits(i, i.operands[3], 32) : b_.getInt32(0);
  for (unsigned k = 0; k < lanes; ++k) {
    Value* v = video_lane(i.opcode.substr(0, i.opcode.size() - 1), lane(1, *type_a, k),
                          lane(2, *type_b, k));
    if (v == nullptr) return false;
    if (i.has("sat")) {
      const int highest = (1 << (out->is_signed() ? bits - 1 : bits)) - 1;
      const int lowest = out->is_signed() ? -highest - 1 : 0;
      v = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, v,
                                   b_.getInt32(static_cast<std::uint32_t>(lowest)));
      v = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, v,
                                   b_.getInt32(static_cast<std::uint32_t>(highest)));
    }
    if (i.has("add"))
      result = b_.CreateAdd(result, v);
    else
      result = b_.CreateOr(result,
                           b_.CreateShl(b_.CreateAnd(v, (std::uint64_t{1} << bits) - 1), k * bits));
  }
  set(i, i.operands[0], result, *out);
  return true;
}

}  // namespace sluice::softgpu::lower
