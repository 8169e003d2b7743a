// Predicates, selections and conversions.
#include "softgpu/lower/function.h"

#include <llvm/IR/Intrinsics.h>

namespace sluice::softgpu::lower {

FunctionLowering::Value* FunctionLowering::comparison(const Instruction& i, const std::string& op, Value* a, Value* b, Type type) {
  using P = llvm::CmpInst::Predicate;
  if (type.is_float()) {
    static const std::map<std::string, P> kFloat = {
        {"eq", P::FCMP_OEQ}, {"ne", P::FCMP_ONE}, {"lt", P::FCMP_OLT}, {"le", P::FCMP_OLE}, {"gt", P::FCMP_OGT}, {"ge", P::FCMP_OGE},
        {"equ", P::FCMP_UEQ}, {"neu", P::FCMP_UNE}, {"ltu", P::FCMP_ULT}, {"leu", P::FCMP_ULE}, {"gtu", P::FCMP_UGT},
        {"geu", P::FCMP_UGE}, {"num", P::FCMP_ORD}, {"nan", P::FCMP_UNO}};
    const auto found = kFloat.find(op);
    if (found != kFloat.end()) return b_.CreateFCmp(found->second, a, b);
  } else {
    const bool is_signed = type.is_signed();
    static const std::map<std::string, std::pair<P, P>> kInteger = {
        {"eq", {P::ICMP_EQ, P::ICMP_EQ}},   {"ne", {P::ICMP_NE, P::ICMP_NE}},   {"lt", {P::ICMP_SLT, P::ICMP_ULT}},
        {"le", {P::ICMP_SLE, P::ICMP_ULE}}, {"gt", {P::ICMP_SGT, P::ICMP_UGT}}, {"ge", {P::ICMP_SGE, P::ICMP_UGE}},
        {"lo", {P::ICMP_ULT, P::ICMP_ULT}}, {"ls", {P::ICMP_ULE, P::ICMP_ULE}}, {"hi", {P::ICMP_UGT, P::ICMP_UGT}},
        {"hs", {P::ICMP_UGE, P::ICMP_UGE}}};
    const auto found = kInteger.find(op);
    if (found != kInteger.end()) return b_.CreateICmp(is_signed ? found->second.first : found->second.second, a, b);
  }
  unsupported(i, "comparison ." + op);
  return b_.getInt1(false);
}

bool FunctionLowering::compare(const Instruction& i) {
  const auto type = last_type(i);
  if (i.opcode == "cvt") return convert(i);
  if (!type || type->lanes != 1 || type->kind == 'h') return false;
  const Type predicate{'p', 1};
  if (type->kind == 'p') {  // and/or/xor/not/mov/selp of predicates
    Value* out = nullptr;
    if (i.opcode == "and") out = b_.CreateAnd(get_predicate(i.operands[1]), get_predicate(i.operands[2]));
    else if (i.opcode == "or") out = b_.CreateOr(get_predicate(i.operands[1]), get_predicate(i.operands[2]));
    else if (i.opcode == "xor") out = b_.CreateXor(get_predicate(i.operands[1]), get_predicate(i.operands[2]));
    else if (i.opcode == "not") out = b_.CreateNot(get_predicate(i.operands[1]));
    else if (i.opcode == "mov") out = get_predicate(i.operands[1]);
    if (out == nullptr) return false;
    set(i, i.operands[0], out, predicate);
    return true;
  }
  if (i.opcode == "selp") {
    Value* out = b_.CreateSelect(get_predicate(i.operands[3]), get(i, i.operands[1], *type), get(i, i.operands[2], *type));
    set(i, i.operands[0], out, *type);
    return true;
  }
  if (i.opcode == "slct") {  // slct.type.{s32,f32} d, a, b, c: the last type is c's
    const auto value_type = last_type(i, 1);
    if (!value_type) return false;
    Value* c = get(i, i.operands[3], *type);
    Value* is_not_negative = type->is_float() ? b_.CreateFCmpOGE(c, llvm::ConstantFP::get(c->getType(), 0.0))
                                              : b_.CreateICmpSGE(c, b_.getIntN(type->bits, 0));
    set(i, i.operands[0], b_.CreateSelect(is_not_negative, get(i, i.operands[1], *value_type), get(i, i.operands[2], *value_type)), *value_type);
    return true;
  }
  if (i.opcode != "setp" && i.opcode != "set") return false;
  const auto operand = [&](std::size_t k) {
    return type->is_float() ? float_operand(i, i.operands[k], *type) : get(i, i.operands[k], *type);
  };
  Value* result = comparison(i, i.mods.empty() ? "" : i.mods[0], operand(1), operand(2), *type);
  Value* complement = b_.CreateNot(result);
  if (i.operands.size() > 3) {
    Value* other = get_predicate(i.operands[3]);
    const auto combine = [&](Value* v) {
      if (i.has("and")) return b_.CreateAnd(v, other);
      if (i.has("or")) return b_.CreateOr(v, other);
      return b_.CreateXor(v, other);
    };
    result = combine(result);
    complement = combine(complement);
  }
  if (i.opcode == "set") {
    const auto out = last_type(i, 1);
    if (!out) return false;
    Value* yes = out->is_float() ? static_cast<Value*>(llvm::ConstantFP::get(llvm_type(*out), 1.0)) : b_.getInt(llvm::APInt::getAllOnes(out->bits));
    set(i, i.operands[0], b_.CreateSelect(result, yes, llvm::Constant::getNullValue(yes->getType())), *out);
    return true;
  }
  const Operand& target = i.operands[0];
  if (target.kind == Operand::Kind::kPair) {
    set(i, target.parts[0], result, predicate);
    set(i, target.parts[1], complement, predicate);
  } else {
    set(i, target, result, predicate);
  }
  return true;
}

bool FunctionLowering::convert(const Instruction& i) {
  const auto from = last_type(i);
  const auto to = last_type(i, 1);
  if (!from || !to || from->lanes != 1 || to->lanes != 1 || i.operands.size() != 2) return false;
  if ((from->kind == 'h' && !(to->kind == 'f' && to->bits == 32)) || (to->kind == 'h' && !(from->kind == 'f' && from->bits == 32))) return false;
  Value* out = nullptr;
  if (from->kind == 'h') {  // bf16 is the upper half of an f32
    Value* wide = b_.CreateShl(b_.CreateZExt(get_bits(i, i.operands[1], 16), b_.getInt32Ty()), 16);
    set(i, i.operands[0], b_.CreateBitCast(wide, b_.getFloatTy()), *to);
    return true;
  }
  Value* v = from->is_float() ? float_operand(i, i.operands[1], *from) : get(i, i.operands[1], *from);
  if (to->kind == 'h') {
    if (i.has("rz")) out = b_.CreateTrunc(b_.CreateLShr(b_.CreateBitCast(v, b_.getInt32Ty()), 16), b_.getInt16Ty());
    else out = call_helper("softgpu_f32_to_bf16", b_.getInt16Ty(), {v});
    set(i, i.operands[0], out, Type{'b', 16});
    return true;
  }
  if (from->is_float() && to->is_float()) out = float_to_float(i, v, *from, *to);
  else if (from->is_float()) out = float_to_integer(i, v, *from, *to);
  else if (to->is_float()) out = integer_to_float(i, v, *from, *to);
  else out = integer_to_integer(i, v, *from, *to);
  set(i, i.operands[0], out, *to);
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

FunctionLowering::Value* FunctionLowering::float_to_integer(const Instruction& i, Value* v, Type, Type to) {
  const auto rounding = integral_rounding(i);
  if (rounding != llvm::Intrinsic::not_intrinsic) v = b_.CreateUnaryIntrinsic(rounding, v);
  // Float to integer saturates and maps NaN to 0 (for 64-bit targets NaN gives the most negative number / 2^63: documented as
  // unspecified, 0 here).
  auto* integer = b_.getIntNTy(to.bits);
  const auto id = to.is_signed() ? llvm::Intrinsic::fptosi_sat : llvm::Intrinsic::fptoui_sat;
  return b_.CreateIntrinsic(id, {integer, v->getType()}, {v});
}

FunctionLowering::Value* FunctionLowering::integer_to_float(const Instruction& i, Value* v, Type from, Type to) {
  for (const char* mode : {"rz", "rm", "rp"}) {
    if (!i.has(mode) || to.bits == 16) continue;
    Value* wide = from.is_signed() ? b_.CreateSExt(v, b_.getInt64Ty()) : b_.CreateZExt(v, b_.getInt64Ty());
    return call_helper(std::string("softgpu_cvt_") + mode + "_" + (from.is_signed() ? "s64" : "u64") + (to.bits == 64 ? "_f64" : "_f32"), llvm_type(to), {wide});
  }
  return finish_float(i, to, from.is_signed() ? b_.CreateSIToFP(v, llvm_type(to)) : b_.CreateUIToFP(v, llvm_type(to)));
}

FunctionLowering::Value* FunctionLowering::float_to_float(const Instruction& i, Value* v, Type from, Type to) {
  const auto rounding = integral_rounding(i);
  if (rounding != llvm::Intrinsic::not_intrinsic) v = b_.CreateUnaryIntrinsic(rounding, v);
  if (to.bits > from.bits) v = b_.CreateFPExt(v, llvm_type(to));
  if (to.bits < from.bits) {
    const char* directed = i.has("rz") ? "rz" : i.has("rm") ? "rm" : i.has("rp") ? "rp" : nullptr;
    if (directed != nullptr && from.bits == 64 && to.bits == 32)
      v = call_helper(std::string("softgpu_cvt_") + directed + "_f64_f32", b_.getFloatTy(), {v});
    else if (directed != nullptr) unsupported(i, "directed rounding to f16");
    else v = b_.CreateFPTrunc(v, llvm_type(to));
  }
  return finish_float(i, to, v);
}

FunctionLowering::Value* FunctionLowering::integer_to_integer(const Instruction& i, Value* v, Type from, Type to) {
  auto* wide = b_.getIntNTy(128);
  Value* x = from.is_signed() ? b_.CreateSExt(v, wide) : b_.CreateZExt(v, wide);
  if (i.has("sat")) {
    const llvm::APInt low = to.is_signed() ? llvm::APInt::getSignedMinValue(to.bits).sext(128) : llvm::APInt(128, 0);
    const llvm::APInt high = to.is_signed() ? llvm::APInt::getSignedMaxValue(to.bits).sext(128) : llvm::APInt::getMaxValue(to.bits).zext(128);
    x = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, x, b_.getInt(low));
    x = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, x, b_.getInt(high));
  }
  return b_.CreateTrunc(x, b_.getIntNTy(to.bits));
}

}  // namespace sluice::softgpu::lower
