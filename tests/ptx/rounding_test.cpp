// Directed rounding against exact values: __float128 holds sums and products of f32 and products of
// f64 exactly.
#include "tests/ptx/harness.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <type_traits>

namespace sluice::softgpu::test {
namespace {

using Exact = __float128;

/// Is `got` what `exact` becomes when it is rounded in direction `mode`?
template <class T>
bool is_rounded(const std::string& mode, Exact exact, T got) {
  const T infinity = std::numeric_limits<T>::infinity();
  const auto up = [&](T v) { return static_cast<Exact>(std::nextafter(v, infinity)); };
  const auto down = [&](T v) { return static_cast<Exact>(std::nextafter(v, -infinity)); };
  const auto as_exact = static_cast<Exact>(got);
  std::string direction = mode;
  if (mode == "rz") direction = exact > 0 ? "rm" : "rp";
  if (direction == "rm") return as_exact <= exact && exact < up(got);
  if (direction == "rp") return as_exact >= exact && exact > down(got);
  return 2 * exact <= as_exact + up(got) && 2 * exact >= as_exact + down(got);
}

template <class T>
std::vector<T> samples(unsigned seed, int exponents) {
  std::mt19937_64 random(seed);
  std::vector<T> out;
  for (int k = 0; k < 1000; ++k) {
    const auto mantissa = static_cast<T>(random() >> 11) * std::numeric_limits<T>::epsilon();
    const int exponent =
        static_cast<int>(random() % static_cast<unsigned>(2 * exponents)) - exponents;
    out.push_back((random() & 1 ? T{1} : T{-1}) *
                  std::ldexp(std::fmod(mantissa, T{1}) + T{1}, exponent));
  }
  return out;
}

template <class T>
std::vector<T> run(const std::string& code, std::vector<T> a, std::vector<T> b, std::vector<T> c) {
  const std::string bits = sizeof(T) == 8 ? "64" : "32";
  Loaded module(
      kHeader +
      ".visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d) {\n" +
      ".reg .b32 %i; .reg .b64 %p<8>; .reg .b" + bits +
      " %v<4>;\nmov.u32 %i, %tid.x; mul.wide.u32 %p0, %i, " + std::to_string(sizeof(T)) + ";\n" +
      "ld.param.u64 %p1, [a]; ld.param.u64 %p2, [b]; ld.param.u64 %p3, [c]; ld.param.u64 %p4, "
      "[d];\n"
      "add.u64 %p1, %p1, %p0; add.u64 %p2, %p2, %p0; add.u64 %p3, %p3, %p0; add.u64 %p4, %p4, "
      "%p0;\n"
      "ld.global.b" +
      bits + " %v1, [%p1]; ld.global.b" + bits + " %v2, [%p2]; ld.global.b" + bits +
      " %v3, [%p3];\n" + code + ";\nst.global.b" + bits + " [%p4], %v0; ret; }\n");
  std::vector<T> out(a.size());
  const LaunchResult result = module.run("k", {}, {static_cast<std::uint32_t>(a.size()), 1, 1},
                                         a.data(), b.data(), c.data(), out.data());
  EXPECT_EQ(result.outcome, LaunchOutcome::kOk) << result.detail;
  return out;
}

class DirectedRounding : public testing::TestWithParam<const char*> {};

template <class T>
void check(const std::string& mode) {
  const std::string type = sizeof(T) == 8 ? ".f64" : ".f32";
  const int exponents = sizeof(T) == 8 ? 20 : 30;
  const std::vector<T> a = samples<T>(1, exponents);
  const std::vector<T> b = samples<T>(2, exponents);
  const std::vector<T> c = samples<T>(3, sizeof(T) == 8 ? 4 : 40);
  const auto sums = run<T>("add." + mode + type + " %v0, %v1, %v2", a, b, c);
  const auto products = run<T>("mul." + mode + type + " %v0, %v1, %v2", a, b, c);
  const auto quotients = run<T>("div." + mode + type + " %v0, %v1, %v2", a, b, c);
  const auto reciprocals = run<T>("rcp." + mode + type + " %v0, %v1", a, b, c);
  const auto roots = run<T>("abs" + type + " %v1, %v1; sqrt." + mode + type + " %v0, %v1", a, b, c);
  const auto fused = run<T>("fma." + mode + type + " %v0, %v1, %v2, %v3", a, b, c);
  for (std::size_t k = 0; k < a.size(); ++k) {
    const auto x = static_cast<Exact>(a[k]);
    const auto y = static_cast<Exact>(b[k]);
    const auto z = static_cast<Exact>(c[k]);
    ASSERT_TRUE(is_rounded(mode, x + y, sums[k])) << a[k] << " + " << b[k] << " = " << sums[k];
    ASSERT_TRUE(is_rounded(mode, x * y, products[k]))
        << a[k] << " * " << b[k] << " = " << products[k];
    // Quotients and roots are not exact, but 113 bits tell the side in all but freak cases.
    ASSERT_TRUE(is_rounded(mode, x / y, quotients[k]))
        << a[k] << " / " << b[k] << " = " << quotients[k];
    ASSERT_TRUE(is_rounded(mode, 1 / x, reciprocals[k]))
        << "1 / " << a[k] << " = " << reciprocals[k];
    const Exact magnitude = x < 0 ? -x : x;
    const auto root = static_cast<Exact>(roots[k]);
    const bool is_below = root * root <= magnitude;
    const bool is_above = root * root >= magnitude;
    ASSERT_TRUE(mode == "rn" || (mode == "rp" ? is_above : is_below))
        << "sqrt " << a[k] << " = " << roots[k];
    if constexpr (std::is_same_v<T, float>) {
      ASSERT_TRUE(is_rounded(mode, x * y + z, fused[k]))
          << a[k] << " * " << b[k] << " + " << c[k] << " = " << fused[k];
    }
  }
}

TEST_P(DirectedRounding, MatchesExactF32) {
  check<float>(GetParam());
}
TEST_P(DirectedRounding, MatchesExactF64) {
  check<double>(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Mode, DirectedRounding, testing::Values("rn", "rz", "rm", "rp"),
                         [](const auto& mode) { return std::string(mode.param); });

TEST(DirectedRounding, KeepsTheSignOfZeroAndTheLargestNumber) {
  const float huge = std::numeric_limits<float>::max();
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(std::signbit(run<float>("add.rm.f32 %v0, %v1, %v2", {1}, {-1}, {0})[0]));
  EXPECT_FALSE(std::signbit(run<float>("add.rm.f32 %v0, %v1, %v2", {0}, {0}, {0})[0]));
  EXPECT_FALSE(std::signbit(run<float>("add.rp.f32 %v0, %v1, %v2", {1}, {-1}, {0})[0]));
  EXPECT_FALSE(std::signbit(run<float>("mul.rm.f32 %v0, %v1, %v2", {0}, {1}, {0})[0]));
  EXPECT_EQ(run<float>("mul.rz.f32 %v0, %v1, %v2", {huge}, {2}, {0})[0], huge);
  EXPECT_EQ(run<float>("mul.rp.f32 %v0, %v1, %v2", {-huge}, {2}, {0})[0], -huge);
  EXPECT_EQ(run<float>("mul.rp.f32 %v0, %v1, %v2", {huge}, {2}, {0})[0], infinity);
  EXPECT_EQ(run<float>("fma.rm.f32 %v0, %v1, %v2, %v3", {infinity}, {2}, {1})[0], infinity);
  EXPECT_TRUE(
      std::isnan(run<float>("fma.rm.f32 %v0, %v1, %v2, %v3", {infinity}, {2}, {-infinity})[0]));
  EXPECT_EQ(run<float>("mul.rp.f32 %v0, %v1, %v2", {1e-30f}, {1e-30f}, {0})[0],
            std::bit_cast<float>(1u));
}

}  // namespace
}  // namespace sluice::softgpu::test
