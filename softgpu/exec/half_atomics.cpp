// Atomics on 16-bit floats and pairs of them: compare-and-swap loops over the words they lie in.
// A sum of two halves is exact in f32 before it is rounded, as if the addition had rounded once.
#include "softgpu/exec/helpers.h"

#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>

namespace sluice::softgpu {
namespace {

struct F16 {
  static float widen(std::uint16_t bits) {
    return static_cast<float>(std::bit_cast<_Float16>(bits));
  }
  static std::uint16_t narrow(float value) {
    return std::bit_cast<std::uint16_t>(static_cast<_Float16>(value));
  }
  static constexpr std::uint16_t kNan = 0x7FFF;
};

struct Bf16 {
  static float widen(std::uint16_t bits) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  }
  static std::uint16_t narrow(float value) {
    auto bits = std::bit_cast<std::uint32_t>(value);
    bits += 0x7FFF + (bits >> 16 & 1);  // to nearest even
    return static_cast<std::uint16_t>(bits >> 16);
  }
  static constexpr std::uint16_t kNan = 0x7FFF;
};

struct Add {
  static float of(float a, float b) { return a + b; }
};
struct Min {
  static float of(float a, float b) { return std::fmin(a, b); }
};
struct Max {
  static float of(float a, float b) { return std::fmax(a, b); }
};

template <class Format, class Operation>
std::uint16_t combine(std::uint16_t a, std::uint16_t b) {
  const float out = Operation::of(Format::widen(a), Format::widen(b));
  return std::isnan(out) ? Format::kNan : Format::narrow(out);
}

template <class Format, class Operation>
std::uint16_t one(std::uint16_t* at, std::uint16_t value) {
  const std::atomic_ref word(*at);
  std::uint16_t old = word.load();
  while (!word.compare_exchange_weak(old, combine<Format, Operation>(old, value))) continue;
  return old;
}

template <class Format, class Operation>
std::uint32_t pair(std::uint32_t* at, std::uint32_t value) {
  const std::atomic_ref word(*at);
  std::uint32_t old = word.load();
  for (;;) {
    const std::uint16_t low = combine<Format, Operation>(static_cast<std::uint16_t>(old),
                                                         static_cast<std::uint16_t>(value));
    const std::uint16_t high = combine<Format, Operation>(static_cast<std::uint16_t>(old >> 16),
                                                          static_cast<std::uint16_t>(value >> 16));
    if (word.compare_exchange_weak(old, static_cast<std::uint32_t>(high) << 16 | low)) return old;
  }
}

template <class F>
void* address(F* function) {
  return reinterpret_cast<void*>(function);
}

#define SOFTGPU_HALF_ATOMIC(op, Op)                             \
  {"softgpu_atom_" #op "_f16", address(&one<F16, Op>)},         \
      {"softgpu_atom_" #op "_f16x2", address(&pair<F16, Op>)},  \
      {"softgpu_atom_" #op "_bf16", address(&one<Bf16, Op>)}, { \
    "softgpu_atom_" #op "_bf16x2", address(&pair<Bf16, Op>)     \
  }

const Helper kHelpers[] = {SOFTGPU_HALF_ATOMIC(add, Add), SOFTGPU_HALF_ATOMIC(min, Min),
                           SOFTGPU_HALF_ATOMIC(max, Max)};

}  // namespace

std::span<const Helper> half_atomic_helpers() {
  return kHelpers;
}

}  // namespace sluice::softgpu
