#include "softgpu/exec/helpers.h"

#include <algorithm>
#include <bit>
#include <cfenv>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

// The compiler must not fold or move arithmetic across fesetround.
#ifdef __clang__
#pragma STDC FENV_ACCESS ON
#else
#pragma GCC optimize("rounding-math")
#endif

namespace sluice::softgpu {
namespace {

class Rounding {
 public:
  explicit Rounding(int mode) : before_(std::fegetround()) { std::fesetround(mode); }
  ~Rounding() { std::fesetround(before_); }
  Rounding(const Rounding&) = delete;
  Rounding& operator=(const Rounding&) = delete;

 private:
  int before_;
};

// Both operand and result are volatile, or the compiler moves the arithmetic to where the mode is
// restored already.
template <int kMode, class T>
T add(T a, T b) {
  const Rounding r(kMode);
  volatile T x = a;
  volatile T out = x + b;
  return out;
}
template <int kMode, class T>
T mul(T a, T b) {
  const Rounding r(kMode);
  volatile T x = a;
  volatile T out = x * b;
  return out;
}
template <int kMode, class T>
T div(T a, T b) {
  const Rounding r(kMode);
  volatile T x = a;
  volatile T out = x / b;
  return out;
}
template <int kMode, class T>
T fma(T a, T b, T c) {
  const Rounding r(kMode);
  volatile T x = a;
  volatile T out = std::fma(x, b, c);
  return out;
}
template <int kMode, class T>
T sqrt(T a) {
  const Rounding r(kMode);
  volatile T x = a;
  volatile T out = std::sqrt(x);
  return out;
}
template <int kMode, class From, class To>
To convert(From v) {
  const Rounding r(kMode);
  volatile From x = v;
  volatile To out = static_cast<To>(x);
  return out;
}

/// The f32 next to `value`, towards `up` or down.
float step(float value, bool up) {
  std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if (value == 0)
    bits = up ? 0x00000001 : 0x80000001;
  else
    bits += up == (value > 0) ? 1u : 0xFFFFFFFFu;
  return std::bit_cast<float>(bits);
}

/// Rounds the exact sum `high + low` (|low| at most half a unit of high's last place) to f32.
/// Changing the rounding mode costs ten times as much, and expf of every CUDA program has an fma.rm
/// in it.
template <int kMode>
float narrow(double high, double low) {
  const float nearest = static_cast<float>(high);
  double beyond = high - static_cast<double>(nearest);  // exact
  if (beyond == 0) beyond = low;
  const bool down = kMode == FE_DOWNWARD || (kMode == FE_TOWARDZERO && nearest > 0);
  if (down && beyond < 0) return step(nearest, false);
  if (!down && beyond > 0 && (kMode == FE_UPWARD || nearest < 0)) return step(nearest, true);
  return nearest;
}

/// What `sum`, the rounded sum of a and b, lacks to the exact one.
double lost(double a, double b, double sum) {
  const double part = sum - a;
  const double out = (a - (sum - part)) + (b - part);
  return std::isfinite(out) ? out : 0;
}

template <int kMode>
float sum32(double a, double b) {
  const double sum = a + b;
  // Under .rm an exact sum of zero is negative unless both are positive zeros.
  if (kMode == FE_DOWNWARD && sum == 0) return std::signbit(a) || std::signbit(b) ? -0.0f : 0.0f;
  return narrow<kMode>(sum, lost(a, b, sum));
}
// The product of two f32 is exact in f64.
template <int kMode>
float fma32(float a, float b, float c) {
  return sum32<kMode>(static_cast<double>(a) * static_cast<double>(b), static_cast<double>(c));
}
template <int kMode>
float add32(float a, float b) {
  return sum32<kMode>(static_cast<double>(a), static_cast<double>(b));
}
template <int kMode>
float mul32(float a, float b) {
  return narrow<kMode>(static_cast<double>(a) * static_cast<double>(b), 0);
}
template <int kMode>
float narrow64(double v) {
  return narrow<kMode>(v, 0);
}

/// fma to `bits` of precision later: the f64 sum is rounded to odd, so that the last rounding sees
/// what was lost.
double fma_odd(float a, float b, float c) {
  const double product = static_cast<double>(a) * static_cast<double>(b);
  const double sum = product + static_cast<double>(c);
  const double rest = lost(product, static_cast<double>(c), sum);
  std::uint64_t bits = std::bit_cast<std::uint64_t>(sum);
  if (rest != 0 && (bits & 1) == 0) bits += (rest > 0) == (sum > 0) ? 1u : ~std::uint64_t{0};
  return std::bit_cast<double>(bits);
}

/// To f32, rounded to odd as well.
float narrow_odd(double v) {
  const float nearest = static_cast<float>(v);
  const double beyond = v - static_cast<double>(nearest);
  if (beyond == 0 || !std::isfinite(beyond) || (std::bit_cast<std::uint32_t>(nearest) & 1) != 0)
    return nearest;
  return step(nearest, beyond > 0);
}
float fma_half(float a, float b, float c) {
  return narrow_odd(fma_odd(a, b, c));
}

float ex2(float x) {
  return std::exp2(x);
}
float lg2(float x) {
  return std::log2(x);
}
float sin_approx(float x) {
  return std::sin(x);
}
float cos_approx(float x) {
  return std::cos(x);
}
float tanh_approx(float x) {
  return std::tanh(x);
}
float rsqrt32(float x) {
  return static_cast<float>(1.0 / std::sqrt(static_cast<double>(x)));
}
double rsqrt64(double x) {
  return 1.0 / std::sqrt(x);
}

template <class T>
T bfe(T value, std::uint32_t position, std::uint32_t length) {
  constexpr int kBits = sizeof(T) * 8;
  const int at = static_cast<int>(position & 0xFF);
  const int count = static_cast<int>(length & 0xFF);
  using U = std::make_unsigned_t<T>;
  constexpr bool kSigned = std::is_signed_v<T>;
  const int sign_at = std::min(at + count - 1, kBits - 1);
  const bool sign = kSigned && count != 0 && ((static_cast<U>(value) >> sign_at) & 1) != 0;
  U out = 0;
  for (int k = 0; k < kBits; ++k) {
    const bool bit =
        k < count && at + k < kBits ? ((static_cast<U>(value) >> (at + k)) & 1) != 0 : sign;
    out |= static_cast<U>(static_cast<U>(bit) << k);
  }
  return static_cast<T>(out);
}

template <class T>
T bfi(T from, T into, std::uint32_t position, std::uint32_t length) {
  constexpr unsigned kBits = sizeof(T) * 8;
  const unsigned at = position & 0xFF;
  const unsigned count = length & 0xFF;
  for (unsigned k = 0; k < count && at + k < kBits; ++k) {
    const T mask = T{1} << (at + k);
    into = ((from >> k) & 1) != 0 ? into | mask : into & ~mask;
  }
  return into;
}

std::uint32_t prmt(std::uint32_t a, std::uint32_t b, std::uint32_t selectors) {
  const std::uint64_t bytes = static_cast<std::uint64_t>(b) << 32 | a;
  std::uint32_t out = 0;
  for (unsigned k = 0; k < 4; ++k) {
    const unsigned selector = selectors >> (4 * k) & 0xF;
    std::uint32_t byte = static_cast<std::uint32_t>(bytes >> (8 * (selector & 7))) & 0xFF;
    if ((selector & 8) != 0) byte = (byte & 0x80) != 0 ? 0xFF : 0;
    out |= byte << (8 * k);
  }
  return out;
}

std::uint32_t bmsk(std::uint32_t position, std::uint32_t count, std::uint32_t is_clamped) {
  if (is_clamped == 0) {
    position &= 31;
    count &= 31;
  } else {
    position = std::min(position, 32u);
    count = std::min(count, 32u);
  }
  const std::uint64_t ones = (std::uint64_t{1} << count) - 1;
  return static_cast<std::uint32_t>(position >= 32 ? 0 : ones << position);
}

/// The four selectors that a mode of prmt (1 = f4e, b4e, rc8, ecl, ecr, rc16) makes of its number.
std::uint32_t prmt_selectors(std::uint32_t number, std::uint32_t mode) {
  static constexpr std::uint16_t kSelectors[6][4] = {
      {0x3210, 0x4321, 0x5432, 0x6543}, {0x5670, 0x6701, 0x7012, 0x0123},
      {0x0000, 0x1111, 0x2222, 0x3333}, {0x3210, 0x3211, 0x3222, 0x3333},
      {0x0000, 0x1110, 0x2210, 0x3210}, {0x1010, 0x3232, 0x1010, 0x3232}};
  return kSelectors[mode - 1][number & 3];
}

/// flags: 1 = clamp, 2 = sign-extend.
std::uint32_t szext(std::uint32_t value, std::uint32_t width, std::uint32_t flags) {
  if ((flags & 1) == 0) width &= 31;
  if (width >= 32) return value;
  if (width == 0) return 0;
  const std::uint32_t low = value << (32 - width);
  return (flags & 2) != 0
             ? static_cast<std::uint32_t>(static_cast<std::int32_t>(low) >> (32 - width))
             : low >> (32 - width);
}

/// The n-th set bit from `base` upwards (n > 0) or downwards (n < 0), or base itself (0).
std::uint32_t fns(std::uint32_t mask, std::uint32_t base, std::int32_t n) {
  if (n == 0) return base < 32 && (mask >> base & 1) != 0 ? base : 0xFFFFFFFF;
  const int direction = n > 0 ? 1 : -1;
  for (int at = static_cast<int>(base); at >= 0 && at < 32; at += direction) {
    if ((mask >> at & 1) == 0) continue;
    n -= direction;
    if (n == 0) return static_cast<std::uint32_t>(at);
  }
  return 0xFFFFFFFF;
}

std::uint16_t f32_to_bf16(float f) {
  std::uint32_t bits;
  std::memcpy(&bits, &f, sizeof bits);
  if (std::isnan(f)) return 0x7FFF;
  bits += 0x7FFF + (bits >> 16 & 1);
  return static_cast<std::uint16_t>(bits >> 16);
}

std::uint64_t clock_now() {
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}
std::uint64_t global_timer() {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                        std::chrono::system_clock::now().time_since_epoch())
                                        .count());
}

template <class F>
void* address(F* function) {
  return reinterpret_cast<void*>(function);
}

#define SOFTGPU_DIRECTED(op, mode, MODE) \
  { "softgpu_" #op "_" #mode "_f64", address(&op<MODE, double>) }
#define SOFTGPU_CONVERT(mode, MODE)                                                        \
  {"softgpu_cvt_" #mode "_s64_f32", address(&convert<MODE, std::int64_t, float>)},         \
      {"softgpu_cvt_" #mode "_u64_f32", address(&convert<MODE, std::uint64_t, float>)},    \
      {"softgpu_cvt_" #mode "_s64_f64", address(&convert<MODE, std::int64_t, double>)},    \
      {"softgpu_cvt_" #mode "_u64_f64", address(&convert<MODE, std::uint64_t, double>)}, { \
    "softgpu_cvt_" #mode "_f64_f32", address(&narrow64<MODE>)                              \
  }
#define SOFTGPU_ALL(mode, MODE)                                             \
  SOFTGPU_DIRECTED(add, mode, MODE), SOFTGPU_DIRECTED(mul, mode, MODE),     \
      SOFTGPU_DIRECTED(div, mode, MODE), SOFTGPU_DIRECTED(fma, mode, MODE), \
      SOFTGPU_DIRECTED(sqrt, mode, MODE), SOFTGPU_CONVERT(mode, MODE),      \
      {"softgpu_add_" #mode "_f32", address(&add32<MODE>)},                 \
      {"softgpu_mul_" #mode "_f32", address(&mul32<MODE>)},                 \
      {"softgpu_fma_" #mode "_f32", address(&fma32<MODE>)},                 \
      {"softgpu_div_" #mode "_f32", address(&div<MODE, float>)}, {          \
    "softgpu_sqrt_" #mode "_f32", address(&sqrt<MODE, float>)               \
  }

const Helper kHelpers[] = {
    SOFTGPU_ALL(rz, FE_TOWARDZERO),
    SOFTGPU_ALL(rm, FE_DOWNWARD),
    SOFTGPU_ALL(rp, FE_UPWARD),
    {"softgpu_ex2_f32", address(&ex2)},
    {"softgpu_lg2_f32", address(&lg2)},
    {"softgpu_sin_f32", address(&sin_approx)},
    {"softgpu_cos_f32", address(&cos_approx)},
    {"softgpu_tanh_f32", address(&tanh_approx)},
    {"softgpu_rsqrt_f32", address(&rsqrt32)},
    {"softgpu_rsqrt_f64", address(&rsqrt64)},
    {"softgpu_bfe_u32", address(&bfe<std::uint32_t>)},
    {"softgpu_bfe_s32", address(&bfe<std::int32_t>)},
    {"softgpu_bfe_u64", address(&bfe<std::uint64_t>)},
    {"softgpu_bfe_s64", address(&bfe<std::int64_t>)},
    {"softgpu_bfi_u32", address(&bfi<std::uint32_t>)},
    {"softgpu_bfi_u64", address(&bfi<std::uint64_t>)},
    {"softgpu_prmt", address(&prmt)},
    {"softgpu_prmt_selectors", address(&prmt_selectors)},
    {"softgpu_bmsk", address(&bmsk)},
    {"softgpu_szext", address(&szext)},
    {"softgpu_fns", address(&fns)},
    {"softgpu_fma_f16", address(&fma_half)},
    {"softgpu_fma_bf16", address(&fma_half)},
    {"softgpu_f32_to_bf16", address(&f32_to_bf16)},
    {"softgpu_clock", address(&clock_now)},
    {"softgpu_globaltimer", address(&global_timer)},
};

}  // namespace

std::span<const Helper> helpers() {
  return kHelpers;
}

}  // namespace sluice::softgpu
