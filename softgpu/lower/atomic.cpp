// atom and red: one lane's read-modify-write, as atomic as the host's. What the host has no
// instruction for (two packed halves) is a compare-and-swap loop in a helper.
#include "softgpu/lower/function.h"

namespace sluice::softgpu::lower {

namespace {

using Op = llvm::AtomicRMWInst::BinOp;

/// BAD_BINOP if there is none.
Op operation_of(const ptx::Instruction& i, ptx::Type type) {
  if (i.has("exch")) return Op::Xchg;
  if (i.has("add")) return type.is_float() ? Op::FAdd : Op::Add;
  if (i.has("and")) return Op::And;
  if (i.has("or")) return Op::Or;
  if (i.has("xor")) return Op::Xor;
  if (type.is_float()) return Op::BAD_BINOP;
  if (i.has("inc")) return Op::UIncWrap;
  if (i.has("dec")) return Op::UDecWrap;
  if (i.has("min")) return type.is_signed() ? Op::Min : Op::UMin;
  if (i.has("max")) return type.is_signed() ? Op::Max : Op::UMax;
  return Op::BAD_BINOP;
}

/// "f16x2" for a packed or 16-bit float type, else "".
std::string half_name(ptx::Type type) {
  if (!type.is_float() || type.bits / type.lanes != 16) return {};
  return std::string(type.kind == 'h' ? "bf16" : "f16") + (type.lanes == 2 ? "x2" : "");
}

}  // namespace

/// atom d, [a], b{, c}; red [a], b. Vectors are as many single ones, as PTX defines them.
bool FunctionLowering::atomic(const Instruction& i) {
  const auto type = last_type(i);
  if (!type || type->bits < 16 || type->bits > 64) return false;
  const std::size_t first = i.opcode == "atom" ? 1 : 0;
  if (i.operands.size() != first + 2 + (i.has("cas") ? 1 : 0)) return false;
  const Operand& source = i.operands[first + 1];
  const bool is_vector = source.kind == Operand::Kind::kVector;
  const std::size_t lanes = is_vector ? source.parts.size() : 1;
  if (is_vector && (i.has("cas") || i.has("exch"))) return false;
  Value* at =
      address(i, i.operands[first], space_of(i), static_cast<std::uint32_t>(lanes) * type->bytes());
  for (std::size_t k = 0; k < lanes; ++k) {
    Value* p = k == 0 ? at : b_.CreateConstGEP1_64(b_.getInt8Ty(), at, k * type->bytes());
    Value* old = read_modify_write(i, *type, p, is_vector ? source.parts[k] : source);
    if (old == nullptr) return false;
    if (first == 0) continue;
    const Operand& target = is_vector ? i.operands[0].parts[k] : i.operands[0];
    // An unread result is none: loops around it do not spin on it.
    if (target.kind == Operand::Kind::kRegister && !is_read(target.reg)) continue;
    set(i, target, old, Type{type->kind == 's' ? 's' : 'b', type->bits});
  }
  return true;
}

FunctionLowering::Value* FunctionLowering::read_modify_write(const Instruction& i, Type type,
                                                             Value* at, const Operand& source) {
  constexpr auto kOrder = llvm::AtomicOrdering::SequentiallyConsistent;
  const llvm::MaybeAlign align(type.bytes());
  Value* value = get_bits(i, source, type.bits);
  if (i.has("cas")) {
    auto* pair = b_.CreateAtomicCmpXchg(at, value, get_bits(i, i.operands.back(), type.bits), align,
                                        kOrder, kOrder);
    return b_.CreateExtractValue(pair, 0);
  }
  if (const std::string half = half_name(type); !half.empty()) {
    const char* op = i.has("add") ? "add" : i.has("min") ? "min" : i.has("max") ? "max" : nullptr;
    if (op == nullptr) return nullptr;
    return call_helper(std::string("softgpu_atom_") + op + "_" + half, b_.getIntNTy(type.bits),
                       {at, value});
  }
  const Op op = operation_of(i, type);
  if (op == Op::BAD_BINOP || type.lanes != 1) return nullptr;
  if (op == Op::FAdd) value = b_.CreateBitCast(value, llvm_type(type));
  return b_.CreateBitCast(b_.CreateAtomicRMW(op, at, value, align, kOrder),
                          b_.getIntNTy(type.bits));
}

/// Does any instruction of the function use the register's value?
bool FunctionLowering::is_read(int reg) {
  if (read_registers_.empty()) {
    read_registers_.resize(body_.register_bits.size() + 1);
    for (const ptx::Statement& s : body_.statements) {
      if (s.is_label) continue;
      const Instruction& i = s.instruction;
      if (i.guard >= 0) read_registers_[static_cast<std::size_t>(i.guard)] = true;
      const bool has_target = i.opcode != "st" && i.opcode != "red" && i.opcode != "call" &&
                              i.opcode != "bar" && i.opcode != "barrier" && i.opcode != "brx";
      for (std::size_t k = 0; k < i.operands.size(); ++k)
        note_reads(i.operands[k], has_target && k == 0);
    }
  }
  return read_registers_[static_cast<std::size_t>(reg)];
}

void FunctionLowering::note_reads(const Operand& o, bool is_target) {
  if (o.reg >= 0 && (!is_target || o.kind == Operand::Kind::kAddress))
    read_registers_[static_cast<std::size_t>(o.reg)] = true;
  for (const Operand& part : o.parts) note_reads(part, is_target);
}

}  // namespace sluice::softgpu::lower
