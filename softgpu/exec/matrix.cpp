#include "softgpu/exec/matrix.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace sluice::softgpu {
namespace {

constexpr unsigned kSideMax = 32;

MatrixOperands& operands_of(const ThreadRecord& lane) {
  return *reinterpret_cast<MatrixOperands*>(lane.a);
}

/// The i-th element of a lane's registers. Every type's values and products are exact in a double.
double element(const std::uint32_t* registers, MatrixType type, unsigned i) {
  const unsigned bits = bits_of(type);
  if (type == MatrixType::kF64) {
    double out;
    std::memcpy(&out, registers + 2 * i, sizeof out);
    return out;
  }
  const std::uint32_t raw = registers[i * bits / 32] >> (i * bits % 32);
  switch (type) {
    case MatrixType::kF16:
      return static_cast<double>(std::bit_cast<_Float16>(static_cast<std::uint16_t>(raw)));
    case MatrixType::kBf16:
      return std::bit_cast<float>(raw << 16);
    case MatrixType::kTf32:  // the lower bits of the mantissa are not looked at
      return std::bit_cast<float>(raw & ~0x1FFFu);
    case MatrixType::kS8:
      return static_cast<std::int8_t>(raw);
    case MatrixType::kU8:
      return static_cast<std::uint8_t>(raw);
    case MatrixType::kS32:
      return static_cast<std::int32_t>(raw);
    default:
      return std::bit_cast<float>(raw);
  }
}

void set_element(std::uint32_t* registers, MatrixType type, unsigned i, double value,
                 bool saturates) {
  if (type == MatrixType::kF64) {
    std::memcpy(registers + 2 * i, &value, sizeof value);
  } else if (type == MatrixType::kF16) {
    const auto half = std::bit_cast<std::uint16_t>(static_cast<_Float16>(value));
    const unsigned shift = i % 2 * 16;
    registers[i / 2] = (registers[i / 2] & ~(0xFFFFu << shift)) | std::uint32_t{half} << shift;
  } else if (type == MatrixType::kS32) {
    using Limits = std::numeric_limits<std::int32_t>;
    if (saturates) value = std::clamp<double>(value, Limits::min(), Limits::max());
    registers[i] = static_cast<std::uint32_t>(static_cast<std::int64_t>(value));
  } else {
    registers[i] = std::bit_cast<std::uint32_t>(static_cast<float>(value));
  }
}

/// Calls visit(lane, i, row, column) for every element of a matrix. `group` is the lane's quarter
/// of a row of eight, `member` its place in it, as the PTX ISA's figures name them.
template <class Visit>
void for_each_linear(std::uint32_t rows, std::uint32_t columns, Visit visit) {
  const unsigned each = rows * columns / kWarpLanes;
  for (unsigned at = 0; at < rows * columns; ++at)
    visit(at / each, at % each, at / columns, at % columns);
}

template <class Visit>
void for_each_of_a(const MatrixShape& s, Visit visit) {
  if (s.is_linear) return for_each_linear(s.m, s.k, visit);
  const unsigned per_register = std::max(32 / bits_of(s.a), 1u);
  for (unsigned lane = 0; lane < kWarpLanes; ++lane)
    for (unsigned i = 0; i < s.m * s.k / kWarpLanes; ++i) {
      const unsigned reg = i / per_register;
      // Of 16 rows every second register belongs to the lower half.
      const unsigned block = s.m == 16 ? reg / 2 : reg;
      visit(lane, i, lane / 4 + (s.m == 16 ? 8 * (reg % 2) : 0),
            lane % 4 * per_register + i % per_register + block * 4 * per_register);
    }
}

template <class Visit>
void for_each_of_b(const MatrixShape& s, Visit visit) {
  if (s.is_linear) return for_each_linear(s.k, s.n, visit);
  const unsigned per_register = std::max(32 / bits_of(s.b), 1u);
  for (unsigned lane = 0; lane < kWarpLanes; ++lane)
    for (unsigned i = 0; i < s.k * s.n / kWarpLanes; ++i)
      visit(lane, i,
            lane % 4 * per_register + i % per_register + i / per_register * 4 * per_register,
            lane / 4);
}

template <class Visit>
void for_each_of_c(const MatrixShape& s, Visit visit) {
  if (s.is_linear) return for_each_linear(s.m, s.n, visit);
  for (unsigned lane = 0; lane < kWarpLanes; ++lane)
    for (unsigned i = 0; i < s.m * s.n / kWarpLanes; ++i)
      visit(lane, i, lane / 4 + 8 * (i / 2), lane % 4 * 2 + i % 2);
}

}  // namespace

/// One rounding per element of D. GPUs round more often, in an order that NVIDIA does not document.
void multiply_matrices(ThreadRecord* lanes) {
  const MatrixShape shape = MatrixShape::unpack(lanes[0].count);
  double a[kSideMax][kSideMax], b[kSideMax][kSideMax];
  for_each_of_a(shape, [&](unsigned lane, unsigned i, unsigned row, unsigned column) {
    a[row][column] = element(operands_of(lanes[lane]).a, shape.a, i);
  });
  for_each_of_b(shape, [&](unsigned lane, unsigned i, unsigned row, unsigned column) {
    b[row][column] = element(operands_of(lanes[lane]).b, shape.b, i);
  });
  for_each_of_c(shape, [&](unsigned lane, unsigned i, unsigned row, unsigned column) {
    MatrixOperands& own = operands_of(lanes[lane]);
    double sum = element(own.c, shape.c, i);
    for (unsigned k = 0; k < shape.k; ++k) sum = std::fma(a[row][k], b[k][column], sum);
    set_element(own.d, shape.d, i, sum, shape.saturates);
  });
}

void exchange_matrices(ThreadRecord* lanes) {
  const unsigned count = lanes[0].count % kTransposed;
  const bool is_transposed = lanes[0].count >= kTransposed;
  const auto half = [&](unsigned matrix, unsigned row, unsigned column) {
    return operands_of(lanes[8 * matrix + row]).a[column / 2] >> (column % 2 * 16) & 0xFFFF;
  };
  for (unsigned lane = 0; lane < kWarpLanes; ++lane)
    for (unsigned j = 0; j < count; ++j) {
      const unsigned group = lane / 4;
      const unsigned pair = lane % 4 * 2;
      const std::uint32_t low = is_transposed ? half(j, pair, group) : half(j, group, pair);
      const std::uint32_t high =
          is_transposed ? half(j, pair + 1, group) : half(j, group, pair + 1);
      operands_of(lanes[lane]).d[j] = low | high << 16;
    }
}

}  // namespace sluice::softgpu
