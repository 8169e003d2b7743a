#include "softgpu/exec/helpers.h"

#include "softgpu/exec/fault.h"

#include <cfenv>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

#pragma GCC optimize("rounding-math")  // the compiler must not fold or move arithmetic across fesetround

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

template <int kMode, class T> T add(T a, T b) { const Rounding r(kMode); volatile T x = a; return x + b; }
template <int kMode, class T> T mul(T a, T b) { const Rounding r(kMode); volatile T x = a; return x * b; }
template <int kMode, class T> T div(T a, T b) { const Rounding r(kMode); volatile T x = a; return x / b; }
template <int kMode, class T> T fma(T a, T b, T c) { const Rounding r(kMode); volatile T x = a; return std::fma(x, b, c); }
template <int kMode, class T> T sqrt(T a) { const Rounding r(kMode); volatile T x = a; return std::sqrt(x); }
template <int kMode, class From, class To> To convert(From v) { const Rounding r(kMode); volatile From x = v; return static_cast<To>(x); }

float ex2(float x) { return std::exp2(x); }
float lg2(float x) { return std::log2(x); }
float sin_approx(float x) { return std::sin(x); }
float cos_approx(float x) { return std::cos(x); }
float tanh_approx(float x) { return std::tanh(x); }
float rsqrt32(float x) { return static_cast<float>(1.0 / std::sqrt(static_cast<double>(x))); }
double rsqrt64(double x) { return 1.0 / std::sqrt(x); }

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
    const bool bit = k < count && at + k < kBits ? ((static_cast<U>(value) >> (at + k)) & 1) != 0 : sign;
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
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch()).count());
}

void trap() { leave_kernel(LaunchOutcome::kTrap, "trap instruction"); }

/// The strings are the kernel's; reading them may fault, which ends the kernel as well.
void assertfail(std::uint64_t message, std::uint64_t file, std::uint64_t line, std::uint64_t function) {
  char text[512];
  std::snprintf(text, sizeof text, "%.100s:%u: %.100s: assertion `%.200s' failed", reinterpret_cast<const char*>(file),
                static_cast<unsigned>(line), reinterpret_cast<const char*>(function), reinterpret_cast<const char*>(message));
  leave_kernel(LaunchOutcome::kAssert, text);
}

template <class F>
void* address(F* function) { return reinterpret_cast<void*>(function); }

#define SOFTGPU_DIRECTED(op, mode, MODE)                              \
  {"softgpu_" #op "_" #mode "_f32", address(&op<MODE, float>)},       \
  {"softgpu_" #op "_" #mode "_f64", address(&op<MODE, double>)}
#define SOFTGPU_CONVERT(mode, MODE)                                                               \
  {"softgpu_cvt_" #mode "_s64_f32", address(&convert<MODE, std::int64_t, float>)},                \
  {"softgpu_cvt_" #mode "_u64_f32", address(&convert<MODE, std::uint64_t, float>)},               \
  {"softgpu_cvt_" #mode "_s64_f64", address(&convert<MODE, std::int64_t, double>)},               \
  {"softgpu_cvt_" #mode "_u64_f64", address(&convert<MODE, std::uint64_t, double>)},              \
  {"softgpu_cvt_" #mode "_f64_f32", address(&convert<MODE, double, float>)}
#define SOFTGPU_ALL(mode, MODE)                                                                   \
  SOFTGPU_DIRECTED(add, mode, MODE), SOFTGPU_DIRECTED(mul, mode, MODE), SOFTGPU_DIRECTED(div, mode, MODE), \
  SOFTGPU_DIRECTED(fma, mode, MODE), SOFTGPU_DIRECTED(sqrt, mode, MODE), SOFTGPU_CONVERT(mode, MODE)

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
    {"softgpu_bmsk", address(&bmsk)},
    {"softgpu_f32_to_bf16", address(&f32_to_bf16)},
    {"softgpu_clock", address(&clock_now)},
    {"softgpu_globaltimer", address(&global_timer)},
    {"softgpu_trap", address(&trap)},
    {"softgpu_assertfail", address(&assertfail)},
};

}  // namespace

std::span<const Helper> helpers() { return kHelpers; }

}  // namespace sluice::softgpu
