// Warp collectives against a sequential model of a warp: full and partial masks, divergent code,
// and the forms before .sync.
#include "tests/ptx/cooperation.h"

#include <gtest/gtest.h>

#include <functional>

namespace sluice::softgpu::test {
namespace {

using Words = std::vector<unsigned>;

unsigned mix(unsigned x) {
  x = (x ^ (x >> 15)) * 0x9E3779B1u;
  return x ^ (x >> 13);
}

/// Runs `body` with %r1 = mix(tid) and compares %r2 of every thread with the model.
void expect_words(const std::string& body, unsigned threads,
                  const std::function<unsigned(unsigned)>& model,
                  const std::string& architecture = "sm_90", const char* header = nullptr) {
  std::string text = cooperating_kernel(
      "shr.u32 %r2, %r0, 15; xor.b32 %r2, %r2, %r0; mul.lo.u32 %r2, %r2, 0x9E3779B1; shr.u32 %r1, "
      "%r2, 13; xor.b32 %r1, %r1, %r2; and.b32 %r20, %r0, 31;\n" +
      body + "\nst.global.u32 [%d2], %r2;");
  if (header != nullptr) text = header + text.substr(kHeader.size());
  if (!architecture.empty()) expect_ptxas_accepts(text, architecture);
  Loaded module(text);
  Words out(threads);
  const LaunchResult result = module.run("k", {}, {threads, 1, 1}, out.data(), nullptr);
  ASSERT_EQ(result.outcome, LaunchOutcome::kOk) << body << ": " << result.detail;
  for (unsigned t = 0; t < threads; ++t) ASSERT_EQ(out[t], model(t)) << body << " thread " << t;
}

/// shfl of the PTX ISA's pseudocode, for all lanes present.
unsigned shuffled(const std::string& mode, unsigned t, unsigned b, unsigned c, bool* is_inside) {
  const unsigned lane = t & 31;
  const unsigned segment = c >> 8 & 31;
  const unsigned highest = (lane & segment) | (c & 31 & ~segment);
  int source = 0;
  if (mode == "up") source = static_cast<int>(lane) - static_cast<int>(b);
  if (mode == "down") source = static_cast<int>(lane + b);
  if (mode == "bfly") source = static_cast<int>(lane ^ b);
  if (mode == "idx") source = static_cast<int>((lane & segment) | (b & ~segment));
  *is_inside =
      mode == "up" ? source >= static_cast<int>(highest) : source <= static_cast<int>(highest);
  return mix(*is_inside ? (t & ~31u) + static_cast<unsigned>(source) : t);
}

TEST(Shuffle, TakesTheValueOfTheLaneThatEachModeNames) {
  for (const std::string mode : {"up", "down", "bfly", "idx"})
    for (const unsigned b : {0u, 1u, 3u, 16u, 31u})
      for (const unsigned width : {32u, 16u, 8u, 2u}) {
        const unsigned c = (32 - width) << 8 | (mode == "up" ? 0u : 31u);
        const std::string operands = std::to_string(b) + ", " + std::to_string(c);
        expect_words(
            "shfl.sync." + mode + ".b32 %r2|%p0, %r1, " + operands +
                ", -1; selp.u32 %r3, 1, 0, %p0; add.u32 %r2, %r2, %r3;",
            64,
            [&](unsigned t) {
              bool is_inside = false;
              const unsigned value = shuffled(mode, t, b, c, &is_inside);
              return value + (is_inside ? 1u : 0u);
            },
            b == 3 ? "sm_90" : "");
      }
}

TEST(Shuffle, TakesLaneAndClampFromRegisters) {
  expect_words(
      "add.u32 %r3, %r20, 7; and.b32 %r3, %r3, 31; mov.u32 %r4, 31; mov.u32 %r5, -1; "
      "shfl.sync.idx.b32 %r2, %r1, %r3, %r4, %r5;",
      96, [](unsigned t) { return mix((t & ~31u) + ((t + 7) & 31)); });
}

TEST(Shuffle, AmongTheLanesOfAMaskInDivergentCode) {
  // Odd and even lanes shuffle among themselves, in different branches.
  expect_words(R"(and.b32 %r3, %r0, 1; setp.eq.u32 %p0, %r3, 0; @%p0 bra EVEN;
shfl.sync.bfly.b32 %r2, %r1, 2, 31, 0xAAAAAAAA; bra.uni END;
EVEN: shfl.sync.bfly.b32 %r2, %r1, 4, 31, 0x55555555; add.u32 %r2, %r2, 1;
END: bar.warp.sync -1;)",
               64, [](unsigned t) { return t % 2 == 1 ? mix(t ^ 2) : mix(t ^ 4) + 1; });
}

TEST(Shuffle, IsRepeatedInALoopUntilTheSumIsComplete) {
  expect_words(R"(mov.u32 %r2, %r1; mov.u32 %r3, 16;
L: shfl.sync.bfly.b32 %r4, %r2, %r3, 31, -1; add.u32 %r2, %r2, %r4; shr.u32 %r3, %r3, 1; setp.ne.u32 %p0, %r3, 0; @%p0 bra L;)",
               128, [](unsigned t) {
                 unsigned sum = 0;
                 for (unsigned lane = 0; lane < 32; ++lane) sum += mix((t & ~31u) + lane);
                 return sum;
               });
}

TEST(Shuffle, DoesNotWaitForLanesThatHaveEndedOrDoNotExist) {
  expect_words("setp.ge.u32 %p0, %r0, 40; @%p0 ret; shfl.sync.idx.b32 %r2, %r1, 0, 31, -1;", 44,
               [](unsigned t) { return t < 40 ? mix(t & ~31u) : 0; });
}

TEST(Shuffle, OfLanesThatNeverArriveIsADeadlock) {
  Loaded module(
      cooperating_kernel("setp.lt.u32 %p0, %r0, 5; @%p0 bra A;\nbar.sync 0;\nbra B;\nA: "
                         "shfl.sync.idx.b32 %r2, %r0, 0, 31, -1;\nB: "));
  Words out(32);
  const LaunchResult result = module.run("k", {}, {32, 1, 1}, out.data(), nullptr);
  EXPECT_EQ(result.outcome, LaunchOutcome::kFailed);
  EXPECT_NE(result.detail.find("5 thread(s) from (0, 0, 0) wait for the lanes 0xffffffff"),
            std::string::npos)
      << result.detail;
}

TEST(Shuffle, WithoutSyncTakesTheLanesThatComeTogether) {
  expect_words(
      "shfl.down.b32 %r2|%p0, %r1, 3, 31;", 32,
      [](unsigned t) { return mix(t + 3 < 32 ? t + 3 : t); }, "",
      ".version 6.0\n.target sm_50\n.address_size 64\n");
}

TEST(Vote, CountsThePredicatesOfTheMask) {
  const auto ballot = [](unsigned t) {
    unsigned out = 0;
    for (unsigned lane = 0; lane < 32; ++lane) out |= (mix((t & ~31u) + lane) & 1u) << lane;
    return out;
  };
  const std::string odd = "and.b32 %r3, %r1, 1; setp.ne.u32 %p0, %r3, 0;\n";
  expect_words(odd + "vote.sync.ballot.b32 %r2, %p0, -1;", 64, ballot);
  expect_words(
      odd + "vote.ballot.sync.b32 %r2, !%p0, -1;", 64, [&](unsigned t) { return ~ballot(t); }, "");
  expect_words(odd + "vote.sync.any.pred %p1, %p0, -1; selp.u32 %r2, 1, 0, %p1;", 64,
               [](unsigned) { return 1u; });
  expect_words(odd + "vote.sync.all.pred %p1, %p0, -1; selp.u32 %r2, 1, 0, %p1;", 64,
               [](unsigned) { return 0u; });
  expect_words(
      "setp.lt.u32 %p0, %r0, 32; vote.sync.uni.pred %p1, %p0, -1; vote.sync.all.pred %p2, "
      "%p0, -1; selp.u32 %r2, 1, 0, %p1; selp.u32 %r3, 2, 0, %p2; add.u32 %r2, %r2, %r3;",
      64, [](unsigned t) { return t < 32 ? 3u : 1u; });
  expect_words(
      "setp.lt.u32 %p0, %r20, 3; vote.sync.uni.pred %p1, %p0, -1; selp.u32 %r2, 1, 0, %p1;", 32,
      [](unsigned) { return 0u; });
}

TEST(Vote, WithoutSyncTakesTheLanesThatComeTogether) {
  const char* header = ".version 6.0\n.target sm_50\n.address_size 64\n";
  expect_words(
      "setp.lt.u32 %p0, %r20, 3; vote.ballot.b32 %r2, %p0;", 32, [](unsigned) { return 7u; }, "",
      header);
  expect_words(
      "setp.lt.u32 %p0, %r20, 3; @!%p0 bra L; vote.all.pred %p1, %p0; L: selp.u32 %r2, 5, 6, %p1;",
      32, [](unsigned t) { return t < 3 ? 5u : 6u; }, "", header);
}

TEST(Match, FindsTheLanesWithTheSameValue) {
  expect_words("and.b32 %r3, %r1, 3; match.any.sync.b32 %r2, %r3, -1;", 64, [](unsigned t) {
    unsigned same = 0;
    for (unsigned lane = 0; lane < 32; ++lane)
      same |= static_cast<unsigned>((mix((t & ~31u) + lane) & 3) == (mix(t) & 3)) << lane;
    return same;
  });
  expect_words(
      "and.b32 %r3, %r20, 1; cvt.u64.u32 %d3, %r3; shl.b64 %d3, %d3, 40; "
      "match.any.sync.b64 %r2, %d3, -1;",
      32, [](unsigned t) { return t % 2 == 0 ? 0x55555555u : 0xAAAAAAAAu; });
  const std::string sum = " selp.u32 %r3, 1, 0, %p0; xor.b32 %r2, %r2, %r3;";
  expect_words("mov.u32 %r4, 9; match.all.sync.b32 %r2|%p0, %r4, -1;" + sum, 32,
               [](unsigned) { return 0xFFFFFFFEu; });
  expect_words("match.all.sync.b32 %r2|%p0, %r20, -1;" + sum, 32, [](unsigned) { return 0u; });
  expect_words("mov.u64 %d3, 9; match.all.sync.b64 %r2|%p0, %d3, -1;" + sum, 32,
               [](unsigned) { return 0xFFFFFFFEu; });
}

TEST(Redux, CombinesTheValuesOfTheMask) {
  const auto over = [](unsigned t, auto combine) {
    unsigned out = mix(t & ~31u);
    for (unsigned lane = 1; lane < 32; ++lane) out = combine(out, mix((t & ~31u) + lane));
    return out;
  };
  const auto check = [&](const std::string& op, auto combine) {
    expect_words("redux.sync." + op + " %r2, %r1, -1;", 64,
                 [&](unsigned t) { return over(t, combine); });
  };
  check("add.u32", [](unsigned a, unsigned b) { return a + b; });
  check("add.s32", [](unsigned a, unsigned b) { return a + b; });
  check("min.u32", [](unsigned a, unsigned b) { return std::min(a, b); });
  check("max.u32", [](unsigned a, unsigned b) { return std::max(a, b); });
  check("min.s32", [](unsigned a, unsigned b) {
    return static_cast<unsigned>(std::min(static_cast<int>(a), static_cast<int>(b)));
  });
  check("max.s32", [](unsigned a, unsigned b) {
    return static_cast<unsigned>(std::max(static_cast<int>(a), static_cast<int>(b)));
  });
  check("and.b32", [](unsigned a, unsigned b) { return a & b; });
  check("or.b32", [](unsigned a, unsigned b) { return a | b; });
  check("xor.b32", [](unsigned a, unsigned b) { return a ^ b; });
}

TEST(Elect, ChoosesOneLaneOfTheMask) {
  expect_words(
      "setp.lt.u32 %p1, %r20, 5; mov.u32 %r2, 77; @%p1 bra L; elect.sync %r2|%p0, "
      "0xFFFFFFE0; selp.u32 %r3, 100, 0, %p0; add.u32 %r2, %r2, %r3; L: ",
      64, [](unsigned t) { return t % 32 < 5    ? 77u
                                  : t % 32 == 5 ? 105u
                                                : 5u; });
}

TEST(ActiveMask, NamesTheLanesThatComeTogether) {
  expect_words("activemask.b32 %r2;", 48, [](unsigned t) { return t < 32 ? ~0u : 0xFFFFu; });
  expect_words(
      "mov.u32 %r2, 0; setp.lt.u32 %p0, %r20, 9; @%p0 activemask.b32 %r2; activemask.b32 "
      "%r3; popc.b32 %r3, %r3; shl.b32 %r3, %r3, 16; add.u32 %r2, %r2, %r3;",
      32, [](unsigned t) { return (t < 9 ? 0x1FFu : 0u) + (32u << 16); });
}

TEST(WarpBarrier, OrdersSharedMemoryAmongItsLanes) {
  expect_words(
      R"(.shared .align 4 .b8 s[512]; mov.u32 %r3, s; shl.b32 %r4, %r0, 2; add.u32 %r5, %r3, %r4;
st.shared.u32 [%r5], %r1; bar.warp.sync -1; xor.b32 %r4, %r4, 4; add.u32 %r5, %r3, %r4; ld.shared.u32 %r2, [%r5];)",
      64, [](unsigned t) { return mix(t ^ 1); });
}

}  // namespace
}  // namespace sluice::softgpu::test
