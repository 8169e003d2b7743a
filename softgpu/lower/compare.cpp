// Predicates and selections.
#include "softgpu/lower/function.h"

#include <llvm/IR/Intrinsics.h>

namespace sluice::softgpu::lower {

FunctionLowering::Value* FunctionLowering::comparison(const Instruction& i, const std::string& op,
                                                      Value* a, Value* b, Type type) {
  using P = llvm::CmpInst::Predicate;
  if (type.is_float()) {
    static const std::map<std::string, P> kFloat = {
        {"eq", P::FCMP_OEQ},  {"ne", P::FCMP_ONE},  {"lt", P::FCMP_OLT},  {"le", P::FCMP_OLE},
        {"gt", P::FCMP_OGT},  {"ge", P::FCMP_OGE},  {"equ", P::FCMP_UEQ}, {"neu", P::FCMP_UNE},
        {"ltu", P::FCMP_ULT}, {"leu", P::FCMP_ULE}, {"gtu", P::FCMP_UGT}, {"geu", P::FCMP_UGE},
        {"num", P::FCMP_ORD}, {"nan", P::FCMP_UNO}};
    const auto found = kFloat.find(op);
    if (found != kFloat.end()) return b_.CreateFCmp(found->second, a, b);
  } else {
    const bool is_signed = type.is_signed();
    static const std::map<std::string, std::pair<P, P>> kInteger = {
        {"eq", {P::ICMP_EQ, P::ICMP_EQ}},   {"ne", {P::ICMP_NE, P::ICMP_NE}},
        {"lt", {P::ICMP_SLT, P::ICMP_ULT}}, {"le", {P::ICMP_SLE, P::ICMP_ULE}},
        {"gt", {P::ICMP_SGT, P::ICMP_UGT}}, {"ge", {P::ICMP_SGE, P::ICMP_UGE}},
        {"lo", {P::ICMP_ULT, P::ICMP_ULT}}, {"ls", {P::ICMP_ULE, P::ICMP_ULE}},
        {"hi", {P::ICMP_UGT, P::ICMP_UGT}}, {"hs", {P::ICMP_UGE, P::ICMP_UGE}}};
    const auto found = kInteger.find(op);
    if (found != kInteger.end())
      return b_.CreateICmp(is_signed ? found->second.first : found->second.second, a, b);
  }
  unsupported(i, "comparison ." + op);
  return b_.getInt1(false);
}

bool FunctionLowering::compare(const Instruction& i) {
  const auto type = last_type(i);
  if (i.opcode == "cvt") return convert(i);
  if (!type) return false;
  if (type->kind == 'p') return predicate_logic(i);
  if (i.opcode == "selp") {
    Value* out =
        b_.CreateSelect(get_predicate(i, i.operands[3]), get_bits(i, i.operands[1], type->bits),
                        get_bits(i, i.operands[2], type->bits));
    set(i, i.operands[0], out, *type);
    return true;
  }
  if (i.opcode == "slct") {  // slct.type.{s32,f32} d, a, b, c: the last type is c's
    const auto value_type = last_type(i, 1);
    if (!value_type || type->bits != 32) return false;
    Value* c =
        type->is_float() ? float_operand(i, i.operands[3], *type) : get(i, i.operands[3], *type);
    Value* is_not_negative = type->is_float()
                                 ? b_.CreateFCmpOGE(c, llvm::ConstantFP::get(c->getType(), 0.0))
                                 : b_.CreateICmpSGE(c, b_.getIntN(type->bits, 0));
    Value* out = b_.CreateSelect(is_not_negative, get_bits(i, i.operands[1], value_type->bits),
                                 get_bits(i, i.operands[2], value_type->bits));
    set(i, i.operands[0], out, *value_type);
    return true;
  }
  return (i.opcode == "setp" || i.opcode == "set") && set_predicate(i, *type);
}

/// and, or, xor, not, mov of predicates
bool FunctionLowering::predicate_logic(const Instruction& i) {
  const auto operand = [&](std::size_t k) { return get_predicate(i, i.operands[k]); };
  Value* out = nullptr;
  if (i.opcode == "and")
    out = b_.CreateAnd(operand(1), operand(2));
  else if (i.opcode == "or")
    out = b_.CreateOr(operand(1), operand(2));
  else if (i.opcode == "xor")
    out = b_.CreateXor(operand(1), operand(2));
  else if (i.opcode == "not")
    out = b_.CreateNot(operand(1));
  else if (i.opcode == "mov")
    out = operand(1);
  if (out == nullptr) return false;
  set(i, i.operands[0], out, Type{'p', 1});
  return true;
}

/// set of f16 and bf16: 1.0 in a half, or for pairs all bits of each half of an integer.
bool FunctionLowering::set_half(const Instruction& i, const std::vector<Value*>& lanes, Type from,
                                Type to) {
  if (to.bits != from.bits || (to.is_float() && to != from)) return false;
  const std::uint64_t yes = !to.is_float() ? 0xFFFF : to.kind == 'h' ? 0x3F80 : 0x3C00;
  Value* out = b_.getIntN(to.bits, 0);
  for (std::size_t k = 0; k < lanes.size(); ++k)
    out = b_.CreateOr(
        out, b_.CreateSelect(lanes[k], b_.getIntN(to.bits, yes << 16 * k), b_.getIntN(to.bits, 0)));
  set(i, i.operands[0], out, Type{'b', to.bits});
  return true;
}

bool FunctionLowering::set_predicate(const Instruction& i, Type type) {
  const Type predicate{'p', 1};
  const bool is_half = type.is_float() && type.bits / type.lanes == 16;
  const auto lanes = [&](std::size_t k) -> std::vector<Value*> {
    if (is_half) return half_lanes(i, i.operands[k], type);
    return {type.is_float() ? float_operand(i, i.operands[k], type) : get(i, i.operands[k], type)};
  };
  const std::vector<Value*> a = lanes(1);
  const std::vector<Value*> b = lanes(2);
  const auto combine = [&](Value* v) {
    if (i.operands.size() < 4) return v;
    Value* other = get_predicate(i, i.operands[3]);
    if (i.has("and")) return b_.CreateAnd(v, other);
    return i.has("or") ? b_.CreateOr(v, other) : b_.CreateXor(v, other);
  };
  const std::string op = i.mods.empty() ? "" : i.mods[0];
  Value* first = comparison(i, op, a[0], b[0], type);
  const Operand& target = i.operands[0];
  if (i.opcode == "set") {
    const auto out = last_type(i, 1);
    if (out && is_half && (type.lanes == 2 || (out->is_float() && out->bits == 16))) {
      std::vector<Value*> holds = {combine(first)};
      if (type.lanes == 2) holds.push_back(combine(comparison(i, op, a[1], b[1], type)));
      return set_half(i, holds, type, *out);
    }
    if (!out || type.lanes != 1 || (out->is_float() && out->bits != 32)) return false;
    Value* yes = out->is_float() ? static_cast<Value*>(llvm::ConstantFP::get(llvm_type(*out), 1.0))
                                 : b_.getInt(llvm::APInt::getAllOnes(out->bits));
    set(i, target,
        b_.CreateSelect(combine(first), yes, llvm::Constant::getNullValue(yes->getType())), *out);
    return true;
  }
  if (target.kind != Operand::Kind::kPair) {
    if (type.lanes != 1) return false;
    set(i, target, combine(first), predicate);
    return true;
  }
  // p|q: the comparison and its complement, or those of the two lanes.
  Value* second = type.lanes == 2 ? comparison(i, op, a[1], b[1], type) : b_.CreateNot(first);
  Value* p = combine(first);
  Value* q = combine(second);
  set(i, target.parts[0], p, predicate);
  set(i, target.parts[1], q, predicate);
  return true;
}

}  // namespace sluice::softgpu::lower
