// Matrix products of a warp: each against a sum in a loop, over fragments that the test lays out as
// the PTX ISA's figures do.
#include "tests/ptx/cooperation.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

namespace sluice::softgpu::test {
namespace {

std::uint32_t bits_of_value(const std::string& type, int value) {
  const auto f = static_cast<float>(value);
  if (type == "f16") return std::bit_cast<std::uint16_t>(static_cast<_Float16>(f));
  if (type == "bf16") return std::bit_cast<std::uint32_t>(f) >> 16;
  if (type == "tf32" || type == "f32") return std::bit_cast<std::uint32_t>(f);
  return static_cast<std::uint32_t>(value) & (type == "s32" ? ~0u : 0xFFu);
}
unsigned width(const std::string& type) {
  if (type == "f16" || type == "bf16") return 16;
  return type == "s8" || type == "u8" ? 8 : 32;
}

struct Product {
  unsigned m, n, k;
  std::string a, b, sum;
};

/// Small numbers, so that every type holds every result.
int a_at(unsigned row, unsigned column) {
  return static_cast<int>((row * 3 + column) % 5);
}
int b_at(unsigned row, unsigned column) {
  return static_cast<int>((row + column * 2) % 7) - 3;
}
int b_at(const Product& p, unsigned row, unsigned column) {
  return b_at(row, column) + (p.b == "u8" ? 3 : 0);
}
int c_at(unsigned row, unsigned column) {
  return static_cast<int>(row) - static_cast<int>(column);
}
int expected(const Product& p, unsigned row, unsigned column) {
  int sum = c_at(row, column);
  for (unsigned k = 0; k < p.k; ++k) sum += a_at(row, k) * b_at(p, k, column);
  return sum;
}

std::string names(const std::string& prefix, unsigned first, unsigned count) {
  std::string out = "{";
  for (unsigned k = 0; k < count; ++k)
    out += (k == 0 ? "" : ", ") + prefix + std::to_string(first + k);
  return out + "}";
}

/// Lane by lane: registers of A, B, C in `other`, those of D to `out`, 8 words of each.
std::string kernel(const std::string& instruction, unsigned a, unsigned b, unsigned c) {
  std::string text =
      "mul.wide.u32 %d3, %r0, 96; add.u64 %d3, %d1, %d3; mul.wide.u32 %d4, %r0, 32; add.u64 %d4, "
      "%d0, %d4; .reg .b32 %a<8>; .reg .b32 %b<8>; .reg .b32 %c<8>; .reg .b32 %e<8>;\n";
  const std::pair<char, unsigned> loads[] = {{'a', a}, {'b', b}, {'c', c}};
  unsigned base = 0;
  for (const auto& [name, count] : loads) {
    for (unsigned k = 0; k < count; ++k)
      text += "ld.global.b32 %" + std::string(1, name) + std::to_string(k) + ", [%d3+" +
              std::to_string(base + 4 * k) + "];\n";
    base += 32;
  }
  text += instruction + " " + names("%e", 0, c) + ", " + names("%a", 0, a) + ", " +
          names("%b", 0, b) + ", " + names("%c", 0, c) + ";\n";
  for (unsigned k = 0; k < c; ++k)
    text += "st.global.b32 [%d4+" + std::to_string(4 * k) + "], %e" + std::to_string(k) + ";\n";
  return cooperating_kernel(text);
}

struct LaneWords {
  std::uint32_t a[8], b[8], c[8];
};

void put(std::uint32_t* words, const std::string& type, unsigned i, int value) {
  const unsigned bit = i * width(type);
  words[bit / 32] |= bits_of_value(type, value) << bit % 32;
}

/// Row and column of A's i-th element, quoted from the ISA for 16 rows (8 rows: s8 only).
std::pair<unsigned, unsigned> place_of_a(const Product& p, unsigned lane, unsigned i) {
  const unsigned group = lane / 4;
  const unsigned member = lane % 4;
  if (width(p.a) == 8) {
    if (p.m == 8) return {group, member * 4 + i};
    const bool is_upper = p.k == 16 ? i < 4 : i < 4 || (i >= 8 && i < 12);
    return {is_upper ? group : group + 8, member * 4 + i % 4 + (i >= 8 ? 16 : 0)};
  }
  if (width(p.a) == 16) {
    const bool is_upper = i < 2 || (i >= 4 && i < 6);
    return {is_upper ? group : group + 8, member * 2 + i % 2 + (i >= 4 ? 8 : 0)};
  }
  return {i == 0 || i == 2 ? group : group + 8, i < 2 ? member : member + 4};
}
std::pair<unsigned, unsigned> place_of_b(const Product& p, unsigned lane, unsigned i) {
  const unsigned group = lane / 4;
  const unsigned member = lane % 4;
  if (width(p.b) == 8) return {member * 4 + i % 4 + (i >= 4 ? 16 : 0), group};
  if (width(p.b) == 16) return {member * 2 + i % 2 + (i >= 2 ? 8 : 0), group};
  return {i < 1 ? member : member + 4, group};
}
std::pair<unsigned, unsigned> place_of_c(unsigned lane, unsigned i) {
  return {i < 2 ? lane / 4 : lane / 4 + 8, lane % 4 * 2 + i % 2};
}

TEST(MatrixProduct, OfEachShapeIsTheSumOfProducts) {
  const std::vector<Product> products = {
      {16, 8, 8, "f16", "f16", "f32"},   {16, 8, 8, "f16", "f16", "f16"},
      {16, 8, 16, "f16", "f16", "f32"},  {16, 8, 16, "f16", "f16", "f16"},
      {16, 8, 8, "bf16", "bf16", "f32"}, {16, 8, 16, "bf16", "bf16", "f32"},
      {16, 8, 4, "tf32", "tf32", "f32"}, {16, 8, 8, "tf32", "tf32", "f32"},
      {8, 8, 16, "s8", "s8", "s32"},     {16, 8, 16, "s8", "u8", "s32"},
      {16, 8, 32, "u8", "s8", "s32"},    {16, 8, 32, "s8", "s8", "s32"}};
  for (const Product& p : products) {
    const unsigned a = p.m * p.k * width(p.a) / 32 / 32;
    const unsigned b = p.k * p.n * width(p.b) / 32 / 32;
    const unsigned c = p.m * p.n * width(p.sum) / 32 / 32;
    const std::string instruction = "mma.sync.aligned.m" + std::to_string(p.m) + "n8k" +
                                    std::to_string(p.k) + ".row.col." + p.sum + "." + p.a + "." +
                                    p.b + "." + p.sum;
    const std::string text = kernel(instruction, a, b, c);
    expect_ptxas_accepts(text, "sm_90");
    std::vector<LaneWords> in(32);
    for (unsigned lane = 0; lane < 32; ++lane) {
      for (unsigned i = 0; i < p.m * p.k / 32; ++i) {
        const auto [row, column] = place_of_a(p, lane, i);
        put(in[lane].a, p.a, i, a_at(row, column));
      }
      for (unsigned i = 0; i < p.k * p.n / 32; ++i) {
        const auto [row, column] = place_of_b(p, lane, i);
        put(in[lane].b, p.b, i, b_at(p, row, column));
      }
      for (unsigned i = 0; i < p.m * p.n / 32; ++i) {
        const auto [row, column] = place_of_c(lane, i);
        put(in[lane].c, p.sum, i, c_at(row, column));
      }
    }
    Loaded module(text);
    std::vector<std::uint32_t> out(32 * 8);
    const LaunchResult result = module.run("k", {}, {32, 1, 1}, out.data(), in.data());
    ASSERT_EQ(result.outcome, LaunchOutcome::kOk) << instruction << result.detail;
    for (unsigned lane = 0; lane < 32; ++lane) {
      std::uint32_t wanted[8] = {};
      for (unsigned i = 0; i < p.m * p.n / 32; ++i) {
        const auto [row, column] = place_of_c(lane, i);
        put(wanted, p.sum, i, expected(p, row, column));
      }
      for (unsigned k = 0; k < c; ++k)
        ASSERT_EQ(out[8 * lane + k], wanted[k]) << instruction << " lane " << lane;
    }
  }
}

TEST(MatrixProduct, OfDoublesIsTheSumOfProducts) {
  const std::string text = cooperating_kernel(
      ".reg .f64 %f<6>; mul.wide.u32 %d3, %r0, 8; add.u64 %d4, %d1, %d3; ld.global.f64 %f0, [%d4]; "
      "ld.global.f64 %f1, [%d4+256]; mov.f64 %f2, 0d3FF0000000000000; mov.f64 %f3, %f2; "
      "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%f4, %f5}, {%f0}, {%f1}, {%f2, %f3}; "
      "mul.wide.u32 %d3, %r0, 16; add.u64 %d4, %d0, %d3; st.global.f64 [%d4], %f4; st.global.f64 "
      "[%d4+8], %f5;");
  expect_ptxas_accepts(text);
  std::vector<double> in(64);
  for (unsigned lane = 0; lane < 32; ++lane) {
    in[lane] = a_at(lane / 4, lane % 4) + 0.1;
    in[32 + lane] = b_at(lane % 4, lane / 4);
  }
  Loaded module(text);
  std::vector<double> out(64);
  ASSERT_EQ(module.run("k", {}, {32, 1, 1}, out.data(), in.data()).outcome, LaunchOutcome::kOk);
  for (unsigned lane = 0; lane < 32; ++lane)
    for (unsigned i = 0; i < 2; ++i) {
      double sum = 1;
      for (unsigned k = 0; k < 4; ++k)
        sum = std::fma(a_at(lane / 4, k) + 0.1, b_at(k, lane % 4 * 2 + i), sum);
      EXPECT_EQ(out[2 * lane + i], sum) << lane;
    }
}

TEST(MatrixProduct, OfUnknownKindIsRefused) {
  for (const std::string instruction : {"mma.sync.aligned.m16n8k32.row.col.s32.s4.s4.s32",
                                        "mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32",
                                        "mma.sync.aligned.m16n8k16.row.col.f32.f16.bf16.f32"}) {
    const std::string message = prepare_error(kernel(instruction, 4, 2, 4));
    EXPECT_NE(message.find(instruction), std::string::npos) << message;
  }
}

TEST(MatrixLoad, GivesEachLaneItsPartOfTheRows) {
  for (const unsigned count : {1u, 2u, 4u})
    for (const bool is_transposed : {false, true}) {
      const std::string text = cooperating_kernel(
          "shl.b32 %r1, %r0, 4; mov.u32 %r2, s; add.u32 %r2, %r2, %r1; mul.wide.u32 %d3, %r0, 16; "
          "add.u64 %d4, %d1, %d3; ld.global.v4.u32 {%r4, %r5, %r6, %r7}, [%d4]; st.shared.v4.u32 "
          "[%r2], {%r4, %r5, %r6, %r7}; bar.sync 0; mov.u32 %r4, 0; mov.u32 %r5, 0; mov.u32 %r6, "
          "0; mov.u32 %r7, 0; ldmatrix.sync.aligned.m8n8.x" +
              std::to_string(count) + (is_transposed ? ".trans" : "") + ".shared.b16 " +
              names("%r", 4, count) +
              ", [%r2]; add.u64 %d4, %d0, %d3; st.global.v4.u32 [%d4], {%r4, %r5, %r6, %r7};",
          ".shared .align 16 .b8 s[512];\n");
      expect_ptxas_accepts(text);
      std::vector<std::uint16_t> in(32 * 8);
      for (unsigned k = 0; k < in.size(); ++k) in[k] = static_cast<std::uint16_t>(k * 7 + 1);
      Loaded module(text);
      std::vector<std::uint32_t> out(32 * 4);
      ASSERT_EQ(module.run("k", {}, {32, 1, 1}, out.data(), in.data()).outcome, LaunchOutcome::kOk);
      for (unsigned lane = 0; lane < 32; ++lane)
        for (unsigned j = 0; j < 4; ++j) {
          const auto at = [&](unsigned half) {
            const unsigned pair = lane % 4 * 2 + half;
            return std::uint32_t{is_transposed ? in[64 * j + 8 * pair + lane / 4]
                                               : in[64 * j + 8 * (lane / 4) + pair]};
          };
          EXPECT_EQ(out[4 * lane + j], j < count ? at(0) | at(1) << 16 : 0u) << count << lane;
        }
    }
}

/// A fragment is what wmma.load made of it: only its product in memory can be looked at.
TEST(MatrixFragment, LoadsMultipliesAndStores) {
  const std::vector<Product> products = {{16, 16, 16, "f16", "f16", "f32"},
                                         {32, 8, 16, "f16", "f16", "f32"},
                                         {8, 32, 16, "f16", "f16", "f32"}};
  for (const Product& p : products)
    for (const bool is_row : {false, true}) {
      const std::string shape = ".m" + std::to_string(p.m) + "n" + std::to_string(p.n) + "k16";
      const std::string layout = is_row ? "row" : "col";
      const std::string text = cooperating_kernel(
          ".reg .b32 %a<8>; .reg .b32 %b<8>; .reg .f32 %c<8>; .reg .f32 %e<8>; mov.u32 %r1, 16; "
          "mov.u32 %r2, 40;\nwmma.load.a.sync.aligned." +
          layout + shape + ".global.f16 " + names("%a", 0, 8) + ", [%d1], " +
          (is_row ? "%r1" : std::to_string(p.m)) + ";\nwmma.load.b.sync.aligned." + layout + shape +
          ".global.f16 " + names("%b", 0, 8) + ", [%d1+1024]" + ";\nwmma.load.c.sync.aligned.row" +
          shape + ".f32 " + names("%c", 0, 8) + ", [%d1+2048];\nwmma.mma.sync.aligned." + layout +
          "." + layout + shape + ".f32.f32 " + names("%e", 0, 8) + ", " + names("%a", 0, 8) + ", " +
          names("%b", 0, 8) + ", " + names("%c", 0, 8) + ";\nwmma.store.d.sync.aligned.row" +
          shape + ".global.f32 [%d0], " + names("%e", 0, 8) + ", %r2;");
      expect_ptxas_accepts(text);
      std::vector<std::uint16_t> in(2048);
      for (unsigned r = 0; r < p.m; ++r)
        for (unsigned k = 0; k < 16; ++k)
          in[is_row ? r * 16 + k : k * p.m + r] =
              static_cast<std::uint16_t>(bits_of_value("f16", a_at(r, k)));
      for (unsigned k = 0; k < 16; ++k)
        for (unsigned c = 0; c < p.n; ++c)
          in[512 + (is_row ? k * p.n + c : c * 16 + k)] =
              static_cast<std::uint16_t>(bits_of_value("f16", b_at(p, k, c)));
      for (unsigned r = 0; r < p.m; ++r)
        for (unsigned c = 0; c < p.n; ++c) {
          const auto value = static_cast<float>(c_at(r, c));
          std::memcpy(&in[1024 + 2 * (r * p.n + c)], &value, sizeof value);
        }
      Loaded module(text);
      std::vector<float> out(40 * 32, -1);
      const LaunchResult result = module.run("k", {}, {32, 1, 1}, out.data(), in.data());
      ASSERT_EQ(result.outcome, LaunchOutcome::kOk) << shape << result.detail;
      for (unsigned r = 0; r < p.m; ++r)
        for (unsigned c = 0; c < 40; ++c)
          ASSERT_EQ(out[40 * r + c], c < p.n ? static_cast<float>(expected(p, r, c)) : -1.0f)
              << shape << layout << r << "," << c;
    }
}

}  // namespace
}  // namespace sluice::softgpu::test
