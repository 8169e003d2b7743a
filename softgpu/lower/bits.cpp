// Bit fields, permutations, logic tables and dot products.
#include "softgpu/lower/function.h"

#include <llvm/IR/Intrinsics.h>

namespace sluice::softgpu::lower {

bool FunctionLowering::bits(const Instruction& i) {
  const std::string& op = i.opcode;
  const auto type = last_type(i);
  if (!type || type->is_float()) return false;
  const unsigned n = type->bits;
  auto* integer = b_.getIntNTy(n);
  const auto operand = [&](std::size_t k) { return get(i, i.operands[k], *type); };
  const Type u32{'u', 32};
  if (op == "popc" || op == "clz") {
    Value* out = op == "popc" ? b_.CreateUnaryIntrinsic(llvm::Intrinsic::ctpop, operand(1))
                              : b_.CreateBinaryIntrinsic(llvm::Intrinsic::ctlz, operand(1),
                                                         b_.getInt1(false));
    set(i, i.operands[0], b_.CreateZExtOrTrunc(out, b_.getInt32Ty()), u32);
  } else if (op == "brev") {
    set(i, i.operands[0], b_.CreateUnaryIntrinsic(llvm::Intrinsic::bitreverse, operand(1)), *type);
  } else if (op == "bfind") {
    Value* v = operand(1);
    if (type->is_signed()) v = b_.CreateXor(v, b_.CreateAShr(v, n - 1));
    Value* lead = b_.CreateBinaryIntrinsic(llvm::Intrinsic::ctlz, v, b_.getInt1(false));
    Value* at =
        i.has("shiftamt") ? lead : b_.CreateSub(llvm::ConstantInt::get(integer, n - 1), lead);
    Value* none = b_.CreateICmpEQ(v, llvm::ConstantInt::get(integer, 0));
    set(i, i.operands[0],
        b_.CreateSelect(none, b_.getInt32(0xFFFFFFFFu), b_.CreateZExtOrTrunc(at, b_.getInt32Ty())),
        u32);
  } else if (op == "bfe" || op == "bfi") {
    const std::size_t first = op == "bfe" ? 2 : 3;
    const std::string name =
        "softgpu_" + op + "_" + (op == "bfe" && type->is_signed() ? "s" : "u") + std::to_string(n);
    std::vector<Value*> args = {operand(1)};
    if (op == "bfi") args.push_back(operand(2));
    args.push_back(get_bits(i, i.operands[first], 32));
    args.push_back(get_bits(i, i.operands[first + 1], 32));
    set(i, i.operands[0], call_helper(name, integer, args), *type);
  } else if (op == "prmt") {
    static const char* const kModes[] = {"f4e", "b4e", "rc8", "ecl", "ecr", "rc16"};
    std::uint32_t mode = 0;  // 0 = the selectors are given one by one
    for (std::uint32_t k = 0; k < 6; ++k)
      if (i.has(kModes[k])) mode = k + 1;
    Value* selectors = get_bits(i, i.operands[3], 32);
    if (mode != 0)
      selectors =
          call_helper("softgpu_prmt_selectors", b_.getInt32Ty(), {selectors, b_.getInt32(mode)});
    set(i, i.operands[0], call_helper("softgpu_prmt", integer, {operand(1), operand(2), selectors}),
        *type);
  } else if (op == "shf") {
    Value* amount = get_bits(i, i.operands[3], 32);
    amount = i.has("wrap")
                 ? b_.CreateAnd(amount, 31)
                 : b_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, amount, b_.getInt32(32));
    auto* wide = b_.getInt64Ty();
    Value* pair = b_.CreateOr(b_.CreateShl(b_.CreateZExt(operand(2), wide), 32),
                              b_.CreateZExt(operand(1), wide));
    Value* by = b_.CreateZExt(amount, wide);
    Value* out = i.has("l") ? b_.CreateLShr(b_.CreateShl(pair, by), 32) : b_.CreateLShr(pair, by);
    set(i, i.operands[0], b_.CreateTrunc(out, integer), *type);
  } else if (op == "lop3") {
    const Operand& table = i.operands[4];
    if (table.kind != Operand::Kind::kInteger) return false;
    Value* in[3] = {operand(1), operand(2), operand(3)};
    Value* out = llvm::ConstantInt::get(integer, 0);
    for (unsigned row = 0; row < 8; ++row) {
      if ((table.integer >> row & 1) == 0) continue;
      Value* term = llvm::ConstantInt::getSigned(integer, -1);
      for (unsigned k = 0; k < 3; ++k)
        term = b_.CreateAnd(term, (row >> (2 - k) & 1) != 0 ? in[k] : b_.CreateNot(in[k]));
      out = b_.CreateOr(out, term);
    }
    set(i, i.operands[0], out, *type);
  } else if (op == "bmsk") {
    set(i, i.operands[0],
        call_helper("softgpu_bmsk", b_.getInt32Ty(),
                    {operand(1), operand(2), b_.getInt32(i.has("clamp") ? 1 : 0)}),
        *type);
  } else if (op == "szext") {
    Value* flags = b_.getInt32((i.has("clamp") ? 1u : 0u) | (type->is_signed() ? 2u : 0u));
    set(i, i.operands[0],
        call_helper("softgpu_szext", b_.getInt32Ty(), {operand(1), operand(2), flags}), *type);
  } else if (op == "fns") {
    set(i, i.operands[0],
        call_helper("softgpu_fns", b_.getInt32Ty(), {operand(1), operand(2), operand(3)}), *type);
  } else if (op == "dp4a" || op == "dp2a") {
    return dot_product(i);
  } else {
    return false;
  }
  return true;
}

/// dp4a.atype.btype d, a, b, c and dp2a.{lo,hi}.atype.btype: four bytes by four bytes, two halves
/// by two bytes of b.
bool FunctionLowering::dot_product(const Instruction& i) {
  const auto a_type = last_type(i, 1);
  const auto b_type = last_type(i);
  if (!a_type || !b_type) return false;
  const bool is_dp4a = i.opcode == "dp4a";
  const unsigned a_bits = is_dp4a ? 8 : 16;
  const unsigned b_first = i.has("hi") ? 16 : 0;
  Value* a = get_bits(i, i.operands[1], 32);
  Value* b = get_bits(i, i.operands[2], 32);
  Value* sum = get_bits(i, i.operands[3], 32);
  const auto field = [&](Value* from, unsigned first, unsigned count, bool is_signed) {
    Value* top = b_.CreateShl(from, 32 - first - count);
    return is_signed ? b_.CreateAShr(top, 32 - count) : b_.CreateLShr(top, 32 - count);
  };
  for (unsigned k = 0; k < (is_dp4a ? 4u : 2u); ++k)
    sum = b_.CreateAdd(sum, b_.CreateMul(field(a, k * a_bits, a_bits, a_type->is_signed()),
                                         field(b, b_first + 8 * k, 8, b_type->is_signed())));
  set(i, i.operands[0], sum, Type{'b', 32});
  return true;
}

}  // namespace sluice::softgpu::lower
