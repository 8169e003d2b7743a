// mma, wmma and ldmatrix: a lane's registers go to memory of its own, exec/matrix.cpp computes for
// the whole warp. wmma's fragments are opaque to programs, so loading and storing them needs no
// other lane: each has a run of elements in the order of the rows.
#include "softgpu/exec/matrix.h"

#include "softgpu/lower/function.h"

#include <cstdlib>

namespace sluice::softgpu::lower {
namespace {

std::optional<MatrixType> matrix_type(const std::string& word) {
  static const std::map<std::string, MatrixType> kTypes = {
      {"f16", MatrixType::kF16}, {"bf16", MatrixType::kBf16}, {"tf32", MatrixType::kTf32},
      {"f32", MatrixType::kF32}, {"f64", MatrixType::kF64},   {"s8", MatrixType::kS8},
      {"u8", MatrixType::kU8},   {"s32", MatrixType::kS32}};
  const auto found = kTypes.find(word);
  return found == kTypes.end() ? std::nullopt : std::optional(found->second);
}

/// "m16n8k16" and the types of D, A, B, C; false if they are none that softgpu knows.
bool parse_shape(const ptx::Instruction& i, MatrixShape* out) {
  std::vector<MatrixType> types;
  for (const std::string& mod : i.mods) {
    if (const auto type = matrix_type(mod)) types.push_back(*type);
    if (mod.size() < 6 || mod[0] != 'm' || mod[1] < '0' || mod[1] > '9') continue;
    char* at = nullptr;
    out->m = static_cast<std::uint32_t>(std::strtoul(mod.c_str() + 1, &at, 10));
    out->n = static_cast<std::uint32_t>(std::strtoul(at + 1, &at, 10));
    out->k = static_cast<std::uint32_t>(std::strtoul(at + 1, &at, 10));
  }
  out->saturates = i.has("satfinite");
  if (out->m == 0 || types.empty()) return false;
  out->d = types.front();
  out->c = types.back();
  out->a = types.size() == 4 ? types[1] : MatrixType::kF16;
  out->b = types.size() == 4 ? types[2] : MatrixType::kF16;
  return types.size() == 4 || types.size() <= 2;
}

/// Which accumulators a product of these types may have, and for mma which shapes lie as
/// exec/matrix.cpp has them.
bool is_known(const MatrixShape& s) {
  const bool is_integer = s.a == MatrixType::kS8 || s.a == MatrixType::kU8;
  if (is_integer)
    return (s.b == MatrixType::kS8 || s.b == MatrixType::kU8) && s.c == MatrixType::kS32 &&
           s.d == MatrixType::kS32;
  if (s.a != s.b || s.saturates) return false;
  if (s.a == MatrixType::kF64) return s.c == s.a && s.d == s.a && s.m == 8 && s.n == 8 && s.k == 4;
  if (s.m == 8 && !s.is_linear) return false;  // the f16 product of Volta
  const auto is_sum = [&](MatrixType t) {
    return t == MatrixType::kF32 || (t == MatrixType::kF16 && s.a == MatrixType::kF16);
  };
  return (s.a == MatrixType::kF16 || s.a == MatrixType::kBf16 || s.a == MatrixType::kTf32) &&
         is_sum(s.c) && is_sum(s.d);
}

/// Asks fits(operand, bytes) of d, a, b and c: what one lane holds of each.
template <class Fits>
bool all_fit(const MatrixShape& shape, const Fits& fits) {
  const auto lane_bytes = [](std::uint32_t elements, MatrixType type) {
    return std::size_t{elements * bits_of(type) / 8 / kWarpLanes};
  };
  return fits(0, lane_bytes(shape.m * shape.n, shape.d)) &&
         fits(1, lane_bytes(shape.m * shape.k, shape.a)) &&
         fits(2, lane_bytes(shape.k * shape.n, shape.b)) &&
         fits(3, lane_bytes(shape.m * shape.n, shape.c));
}

}  // namespace

bool FunctionLowering::matrix(const Instruction& i) {
  if (i.opcode == "mma") return mma(i);
  if (i.opcode == "ldmatrix") return load_matrix(i);
  if (i.opcode != "wmma") return false;
  return i.has("mma") ? wmma_multiply(i) : wmma_transfer(i);
}

FunctionLowering::Value* FunctionLowering::matrix_operands() {
  if (matrix_operands_ == nullptr) {
    llvm::BasicBlock& entry = out_->getEntryBlock();
    llvm::IRBuilder<> first(&entry, entry.begin());
    matrix_operands_ =
        first.CreateAlloca(llvm::ArrayType::get(b_.getInt8Ty(), sizeof(MatrixOperands)));
    matrix_operands_->setAlignment(llvm::Align(8));
  }
  return matrix_operands_;
}

FunctionLowering::Value* FunctionLowering::matrix_field(std::size_t offset_bytes) {
  return b_.CreateConstGEP1_64(b_.getInt8Ty(), matrix_operands(), offset_bytes);
}

/// Bytes of the registers of {a, b, …}; 0 if they are not of one kind that a lane has room for.
std::size_t FunctionLowering::register_bytes(const Operand& o) {
  if (o.kind != Operand::Kind::kVector || o.parts.empty()) return 0;
  std::size_t bytes = 0;
  for (const Operand& part : o.parts) {
    if (part.kind != Operand::Kind::kRegister) return 0;
    const unsigned bits = body_.register_bits[static_cast<std::size_t>(part.reg)];
    if (bits != 32 && bits != 64) return 0;
    bytes += bits / 8;
  }
  return bytes <= sizeof(MatrixOperands::a) ? bytes : 0;
}

void FunctionLowering::put_registers(const Instruction& i, const Operand& o,
                                     std::size_t offset_bytes) {
  for (const Operand& part : o.parts) {
    const unsigned bits = body_.register_bits[static_cast<std::size_t>(part.reg)];
    b_.CreateAlignedStore(get_bits(i, part, bits), matrix_field(offset_bytes), llvm::Align(4));
    offset_bytes += bits / 8;
  }
}

void FunctionLowering::take_registers(const Instruction& i, const Operand& o,
                                      std::size_t offset_bytes) {
  for (const Operand& part : o.parts) {
    const std::uint16_t bits = body_.register_bits[static_cast<std::size_t>(part.reg)];
    set(i, part,
        b_.CreateAlignedLoad(b_.getIntNTy(bits), matrix_field(offset_bytes), llvm::Align(4)),
        Type{'b', bits});
    offset_bytes += bits / 8u;
  }
}

/// d, a, b, c
void FunctionLowering::multiply(const Instruction& i, std::uint32_t shape) {
  put_registers(i, i.operands[1], offsetof(MatrixOperands, a));
  put_registers(i, i.operands[2], offsetof(MatrixOperands, b));
  put_registers(i, i.operands[3], offsetof(MatrixOperands, c));
  suspend_lanes(i, WarpOperation::kMatrixMultiply, b_.getInt32(0xFFFFFFFFu), b_.getInt32(shape),
                nullptr, b_.CreatePtrToInt(matrix_operands(), b_.getInt64Ty()));
  take_registers(i, i.operands[0], offsetof(MatrixOperands, d));
}

/// mma.sync.aligned.shape.row.col.dtype.atype.btype.ctype d, a, b, c
bool FunctionLowering::mma(const Instruction& i) {
  MatrixShape shape;
  if (!i.has("sync") || !parse_shape(i, &shape) || !is_known(shape) || i.operands.size() != 4)
    return false;
  const auto is_exact = [&](std::size_t operand, std::size_t bytes) {
    return register_bytes(i.operands[operand]) == bytes;
  };
  if (!all_fit(shape, is_exact)) return false;
  multiply(i, shape.pack());
  return true;
}

/// wmma.mma.sync.aligned.alayout.blayout.shape.dtype{.atype.btype}.ctype d, a, b, c
bool FunctionLowering::wmma_multiply(const Instruction& i) {
  MatrixShape shape;
  shape.is_linear = true;
  if (!parse_shape(i, &shape) || !is_known(shape) || i.operands.size() != 4) return false;
  const auto has_room = [&](std::size_t operand, std::size_t bytes) {
    return register_bytes(i.operands[operand]) >= bytes;  // some fragments hold elements twice
  };
  if (!all_fit(shape, has_room)) return false;
  multiply(i, shape.pack());
  return true;
}

/// wmma.load.{a,b,c}.sync.aligned.layout.shape{.space}.type {r…}, [p]{, stride};
/// wmma.store.d.… [p], {r…}{, stride}
bool FunctionLowering::wmma_transfer(const Instruction& i) {
  MatrixShape shape;
  if (!parse_shape(i, &shape) || i.operands.size() < 2) return false;
  const bool is_load = i.has("load");
  const bool is_a = i.has("a");
  const bool is_b = i.has("b");
  const std::uint32_t rows = is_b ? shape.k : shape.m;
  const std::uint32_t columns = is_a ? shape.k : shape.n;
  const unsigned bits = bits_of(shape.d);
  const Operand& registers = i.operands[is_load ? 0 : 1];
  const std::uint32_t each = rows * columns / kWarpLanes;
  const std::size_t bytes = register_bytes(registers);
  if (bytes < each * bits / 8 || each == 0) return false;
  Value* base = address(i, i.operands[is_load ? 1 : 0], space_of(i), bits / 8);
  const std::uint32_t packed = i.has("row") ? columns : rows;
  Value* stride = i.operands.size() > 2 ? get_bits(i, i.operands[2], 32) : b_.getInt32(packed);
  Value* first = b_.CreateMul(special(i, "%laneid"), b_.getInt32(each));
  // Fragments with room for more hold the lane's elements again, as GPUs do.
  const auto count = is_load ? static_cast<std::uint32_t>(bytes * 8 / bits) : each;
  if (!is_load) put_registers(i, registers, offsetof(MatrixOperands, a));
  for (std::uint32_t k = 0; k < count; ++k) {
    Value* at = b_.CreateAdd(first, b_.getInt32(k % each));
    Value* row = b_.CreateUDiv(at, b_.getInt32(columns));
    Value* column = b_.CreateURem(at, b_.getInt32(columns));
    if (!i.has("row")) std::swap(row, column);
    Value* index = b_.CreateZExt(b_.CreateAdd(b_.CreateMul(row, stride), column), b_.getInt64Ty());
    auto* type = b_.getIntNTy(bits);
    Value* outside = b_.CreateGEP(type, base, index);
    Value* inside = matrix_field(offsetof(MatrixOperands, a) + k * bits / 8);
    const llvm::Align align(bits / 8);
    b_.CreateAlignedStore(b_.CreateAlignedLoad(type, is_load ? outside : inside, align),
                          is_load ? inside : outside, align);
  }
  if (is_load) take_registers(i, registers, offsetof(MatrixOperands, a));
  return true;
}

/// ldmatrix.sync.aligned.m8n8.x{1,2,4}{.trans}{.shared}.b16 {r…}, [row]: lane 8j+i names row i of
/// matrix j, and reads it itself, so that a bad address is its own fault.
bool FunctionLowering::load_matrix(const Instruction& i) {
  const std::uint32_t count = i.has("x4") ? 4 : i.has("x2") ? 2 : 1;
  if (!i.has("m8n8") || i.operands.size() != 2 ||
      register_bytes(i.operands[0]) != count * sizeof(std::uint32_t))
    return false;
  auto* read = llvm::BasicBlock::Create(context_, "row", out_);
  auto* done = llvm::BasicBlock::Create(context_, "rows", out_);
  b_.CreateCondBr(b_.CreateICmpULT(special(i, "%laneid"), b_.getInt32(8 * count)), read, done);
  b_.SetInsertPoint(read);
  Value* row = address(i, i.operands[1], space_of(i), 16);
  b_.CreateMemCpy(matrix_field(offsetof(MatrixOperands, a)), llvm::Align(4), row, llvm::Align(4),
                  16);
  b_.CreateBr(done);
  b_.SetInsertPoint(done);
  suspend_lanes(i, WarpOperation::kMatrixLoad, b_.getInt32(0xFFFFFFFFu),
                b_.getInt32(count + (i.has("trans") ? kTransposed : 0)), nullptr,
                b_.CreatePtrToInt(matrix_operands(), b_.getInt64Ty()));
  take_registers(i, i.operands[0], offsetof(MatrixOperands, d));
  return true;
}

}  // namespace sluice::softgpu::lower
