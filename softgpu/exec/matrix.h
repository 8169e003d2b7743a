// Matrix products of a warp: mma, wmma and ldmatrix. Each lane brings its registers in memory of
// its own; lower/ fills it before the lane suspends and reads it afterwards.
#pragma once

#include "softgpu/exec/context.h"

namespace sluice::softgpu {

/// Registers of one lane: D = A * B + C. 64-bit ones take two places.
struct MatrixOperands {
  std::uint32_t a[8], b[8], c[8], d[8];
};

enum class MatrixType : std::uint32_t { kF16, kBf16, kTf32, kF32, kF64, kS8, kU8, kS32 };
constexpr unsigned bits_of(MatrixType type) {
  constexpr unsigned kBits[] = {16, 16, 32, 32, 64, 8, 8, 32};
  return kBits[static_cast<unsigned>(type)];
}

/// A is m * k, B is k * n; powers of two up to 32.
struct MatrixShape {
  std::uint32_t m = 0, n = 0, k = 0;
  MatrixType a = {}, b = {}, c = {}, d = {};
  /// Elements lie row by row, as many in each lane: wmma, whose fragments are opaque. Otherwise as
  /// the PTX ISA says of mma.
  bool is_linear = false;
  bool saturates = false;  ///< integers

  [[nodiscard]] constexpr std::uint32_t pack() const {
    const auto type = [](MatrixType t, unsigned shift) {
      return static_cast<std::uint32_t>(t) << shift;
    };
    return std::uint32_t{saturates} << 31 | std::uint32_t{is_linear} << 30 | type(a, 27) |
           type(b, 24) | type(c, 21) | type(d, 18) | m << 12 | n << 6 | k;
  }
  static constexpr MatrixShape unpack(std::uint32_t v) {
    const auto type = [&](unsigned shift) { return static_cast<MatrixType>(v >> shift & 7); };
    return {v >> 12 & 63,       v >> 6 & 63,       v & 63, type(27), type(24), type(21), type(18),
            (v >> 30 & 1) != 0, (v >> 31 & 1) != 0};
  }
};

/// Added to the number of matrices of ldmatrix if they are transposed.
inline constexpr std::uint32_t kTransposed = 16;

void multiply_matrices(ThreadRecord* lanes);
/// a[0..3] of lane 8j+i is row i of matrix j; d[j] becomes the lane's part of matrix j.
void exchange_matrices(ThreadRecord* lanes);

}  // namespace sluice::softgpu
