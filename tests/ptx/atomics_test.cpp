// atom and red: every operation, type and space gives what the threads would give one after the
// other; locks between threads make progress.
#include "tests/ptx/cooperation.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

namespace sluice::softgpu::test {
namespace {

struct Case {
  const char* operation;  ///< behind "atom.<space>."
  const char* value;      ///< PTX that puts the operand into %d4 (64), %r4 (32) or %h0 (16)
  const char* operand;
  std::uint64_t start, expected;  ///< of the word, before and after 100 threads
};

constexpr std::uint64_t bits(float v) {
  return std::bit_cast<std::uint32_t>(v);
}
constexpr std::uint64_t bits(double v) {
  return std::bit_cast<std::uint64_t>(v);
}
constexpr std::uint64_t kMinusOne = ~std::uint64_t{0};

// %r0 = 0..99 is the thread.
const Case kCases[] = {
    {"add.u32", "mov.u32 %r4, %r0;", "%r4", 5, 4955},
    {"add.s32", "neg.s32 %r4, %r0;", "%r4", 5, 0xFFFFFFFF & (5 - 4950)},
    {"add.u64", "cvt.u64.u32 %d4, %r0; shl.b64 %d4, %d4, 33;", "%d4", 1, (4950ull << 33) + 1},
    {"add.f32", "mov.b32 %r4, 0f3F000000;", "%r4", bits(1.0f), bits(51.0f)},
    {"add.f64", "mov.b64 %d4, 0d3FE0000000000000;", "%d4", bits(1.0), bits(51.0)},
    {"add.noftz.f16", "mov.b16 %h0, 0x3C00;", "%h0", 0x4000, 0x5660},        // 2 + 100
    {"add.noftz.f16x2", "mov.b32 %r4, 0x3C003800;", "%r4", 0, 0x56405240},   // 100 and 50
    {"add.noftz.bf16", "mov.b16 %h0, 0x3F80;", "%h0", 0x4000, 0x42CC},       // 2 + 100
    {"add.noftz.bf16x2", "mov.b32 %r4, 0x3F80BF80;", "%r4", 0, 0x42C8C2C8},  // 100 and -100
    {"min.u32", "add.u32 %r4, %r0, 7;", "%r4", 0xFFFFFFFF, 7},
    {"max.u32", "add.u32 %r4, %r0, 7;", "%r4", 3, 106},
    {"min.s32", "neg.s32 %r4, %r0;", "%r4", 5, 0xFFFFFFFF & (kMinusOne - 98)},
    {"max.s32", "neg.s32 %r4, %r0;", "%r4", 0xFFFFFFF0, 0},
    {"min.u64", "cvt.u64.u32 %d4, %r0; add.u64 %d4, %d4, 7;", "%d4", kMinusOne, 7},
    {"max.u64", "cvt.u64.u32 %d4, %r0; shl.b64 %d4, %d4, 40;", "%d4", 3, 99ull << 40},
    {"min.s64", "cvt.s64.s32 %d4, %r0; neg.s64 %d4, %d4;", "%d4", 5, kMinusOne - 98},
    {"max.s64", "cvt.s64.s32 %d4, %r0; neg.s64 %d4, %d4;", "%d4", kMinusOne - 9, 0},
    {"and.b32", "shl.b32 %r4, 1, %r0; not.b32 %r4, %r4;", "%r4", 0xFFFFFFFF, 0},
    {"or.b32", "and.b32 %r4, %r0, 6;", "%r4", 0x100, 0x106},
    {"xor.b32", "mov.u32 %r4, %r0;", "%r4", 0x100, 0x100},  // of 0 ... 99
    {"and.b64", "mov.u64 %d4, 0xFFFFFFFF0;", "%d4", 0xFFFF000000000FFF, 0xFF0},
    {"or.b64", "cvt.u64.u32 %d4, %r0; shl.b64 %d4, %d4, 32;", "%d4", 1, (127ull << 32) + 1},
    {"xor.b64", "mov.u64 %d4, 3;", "%d4", 7, 7},
    {"inc.u32", "mov.u32 %r4, 6;", "%r4", 0, 100 % 7},
    {"dec.u32", "mov.u32 %r4, 6;", "%r4", 0, 5},  // 0 -> 6 -> ... -> 0, period 7: -100 mod 7
};

/// A kernel that runs the case on a word of `space`; the word is moved in and out by thread 0.
std::string to_kernel(const Case& c, const std::string& space, bool is_reduction) {
  const bool is_shared = space == "shared";
  std::string op = is_reduction ? "red." : "atom.";
  if (!space.empty()) op += space + ".";
  const std::string at = is_shared ? "[s]" : "[%d0]";
  const std::string target = c.operand[1] == 'd' ? "%d6" : c.operand[1] == 'h' ? "%h1" : "%r6";
  const std::string move_in =
      "ld.global.u64 %d5, [%d0]; @!%p0 st.shared.u64 [s], %d5; bar.sync 0;\n";
  const std::string move_out =
      "\nbar.sync 0; ld.shared.u64 %d5, [s]; @!%p0 st.global.u64 [%d0], %d5;";
  std::string body = "setp.ne.u32 %p0, %r0, 0;\n";
  if (is_shared) body += move_in;
  body += std::string(c.value) + " " + op + c.operation + " ";
  if (!is_reduction) body += target + ", ";
  body += at + ", " + c.operand + ";";
  // The old value is used, so that no compiler makes a reduction of it.
  if (!is_reduction && c.operand[1] == 'r') body += " st.global.u32 [%d1], %r6;";
  if (is_shared) body += move_out;
  return cooperating_kernel(body, ".shared .align 8 .b8 s[8];\n");
}

TEST(Atomics, GiveWhatTheThreadsWouldGiveOneAfterTheOther) {
  for (const Case& c : kCases)
    for (const char* space : {"global", "shared", ""})
      for (const bool is_reduction : {false, true}) {
        const std::string text = to_kernel(c, space, is_reduction);
        expect_ptxas_accepts(text);
        Loaded module(text);
        std::uint64_t word = c.start;
        std::uint64_t old = 0;
        const LaunchResult result = module.run("k", {}, {100, 1, 1}, &word, &old);
        ASSERT_EQ(result.outcome, LaunchOutcome::kOk) << c.operation << ": " << result.detail;
        EXPECT_EQ(word, c.expected) << c.operation << " " << space << std::hex << " gave " << word;
      }
}

TEST(Atomics, ReturnTheOldValue) {
  for (const std::string space : {"global", "shared"}) {
    const std::string at = space == "global" ? "[%d1]" : "[s]";
    const std::string text = cooperating_kernel(
        "atom." + space + ".inc.u32 %r1, " + at + ", 1000; st.global.u32 [%d2], %r1;",
        ".shared .align 4 .b8 s[4];\n");
    Loaded module(
        space == "global"
            ? text
            : cooperating_kernel("mov.u32 %r3, 0; st.shared.u32 [s], %r3; bar.sync 0; "
                                 "atom.shared.inc.u32 %r1, [s], 1000; st.global.u32 [%d2], %r1;",
                                 ".shared .align 4 .b8 s[4];\n"));
    std::vector<unsigned> out(256);
    unsigned word = 0;
    ASSERT_EQ(module.run("k", {}, {256, 1, 1}, out.data(), &word).outcome, LaunchOutcome::kOk);
    std::sort(out.begin(), out.end());
    for (unsigned t = 0; t < 256; ++t) EXPECT_EQ(out[t], t);
  }
}

TEST(Atomics, CompareAndSwapOnceAndExchangeAll) {
  const std::string text = cooperating_kernel(R"(
add.u32 %r1, %r0, 1; atom.global.cas.b32 %r2, [%d1], 0, %r1; atom.global.exch.b32 %r3, [%d1+4], %r1;
cvt.u64.u32 %d3, %r1; mov.u64 %d4, 0; atom.global.cas.b64 %d5, [%d1+8], %d4, %d3; atom.global.exch.b64 %d6, [%d1+16], %d3;
mov.b16 %h0, 0; cvt.u16.u32 %h1, %r1; atom.global.cas.b16 %h2, [%d1+24], %h0, %h1;
setp.eq.u32 %p0, %r2, 0; selp.u32 %r4, 1, 0, %p0; setp.eq.u64 %p0, %d5, 0; selp.u32 %r5, 256, 0, %p0; add.u32 %r4, %r4, %r5;
setp.eq.u16 %p0, %h2, 0; selp.u32 %r5, 65536, 0, %p0; add.u32 %r4, %r4, %r5;
st.global.u32 [%d2], %r4; atom.global.add.u32 %r6, [%d1+28], %r3; cvt.u32.u64 %r7, %d6; atom.global.add.u32 %r6, [%d1+32], %r7;)");
  expect_ptxas_accepts(text);
  Loaded module(text);
  std::vector<unsigned> out(64);
  alignas(8) unsigned words[10] = {};
  ASSERT_EQ(module.run("k", {}, {64, 1, 1}, out.data(), &words[0]).outcome, LaunchOutcome::kOk);
  unsigned winners = 0;
  for (const unsigned w : out) winners += w;
  EXPECT_EQ(winners, 1u + 256 + 65536);  // one of each
  const unsigned sum = 64 * 65 / 2;      // every value but the last was given back
  EXPECT_EQ(words[7], sum - words[1]);
  EXPECT_EQ(words[8], sum - words[4]);
}

TEST(Atomics, ReduceVectorsElementByElement) {
  const std::string text = cooperating_kernel(R"(
mov.b32 %r1, 0f3F800000; mov.b32 %r2, 0f40000000; red.global.add.v2.f32 [%d1], {%r1, %r2};
red.global.v4.f32.add [%d1+16], {%r1, %r2, %r1, %r2}; mov.b32 %r3, 0x3C003800; red.global.add.noftz.v2.f16x2 [%d1+8], {%r3, %r3};)");
  Loaded module(text);
  std::vector<unsigned> out(32);
  alignas(16) float words[8] = {};
  ASSERT_EQ(module.run("k", {}, {32, 1, 1}, out.data(), &words[0]).outcome, LaunchOutcome::kOk);
  EXPECT_EQ(words[0], 32.0f);
  EXPECT_EQ(words[1], 64.0f);
  EXPECT_EQ(std::bit_cast<std::uint32_t>(words[2]), 0x50004C00u);
  EXPECT_EQ(words[4] + words[7], 96.0f);
}

TEST(RelaxedVectors, AreNotTorn) {
  // Block 0 writes a number and its complement again and again, block 1 looks whether they agree.
  for (const std::string type : {"u64", "u32"}) {
    const std::string r = type == "u64" ? "%d" : "%r";
    const std::string text = cooperating_kernel(
        "mov.u32 %r10, %ctaid.x; mov.u32 %r11, 0; setp.eq.u32 %p0, %r10, 0; @%p0 bra WRITE; "
        "mov.u32 "
        "%r12, 0;\nREAD: ld.relaxed.gpu.global.v2." +
        type + " {" + r + "5, " + r + "6}, [%d1]; not.b" + type.substr(1) + " " + r + "6, " + r +
        "6; setp.ne." + type + " %p1, " + r + "5, " + r +
        "6; @%p1 add.u32 %r12, %r12, 1; add.u32 %r11, %r11, 1; setp.lt.u32 %p2, %r11, 200000; @%p2 "
        "bra READ; st.global.u32 [%d0], %r12; ret;\nWRITE: cvt.u64.u32 %d5, %r11; mov.u32 %r5, "
        "%r11; not.b64 %d6, %d5; not.b32 %r6, %r5; st.relaxed.gpu.global.v2." +
        type + " [%d1], {" + r + "5, " + r +
        "6}; add.u32 %r11, %r11, 1; setp.lt.u32 %p2, %r11, 200000; @%p2 bra WRITE;");
    expect_ptxas_accepts(text);
    Loaded module(text);
    unsigned torn = 77;
    alignas(16) std::uint64_t words[2] = {};
    if (type == "u64")
      words[1] = ~std::uint64_t{0};
    else
      words[0] = 0xFFFFFFFF00000000;
    ASSERT_EQ(module.run("k", {2, 1, 1}, {}, &torn, &words[0]).outcome, LaunchOutcome::kOk);
    EXPECT_EQ(torn, 0u) << type;
  }
}

TEST(SpinLock, BetweenThreadsOfABlockMakesProgress) {
  const std::string text = cooperating_kernel(R"(
SPIN: atom.global.cas.b32 %r1, [%d1], 0, 1; setp.ne.u32 %p0, %r1, 0; @%p0 bra SPIN;
membar.gl; ld.volatile.global.u32 %r2, [%d1+4]; add.u32 %r2, %r2, 1; nanosleep.u32 10; st.volatile.global.u32 [%d1+4], %r2;
fence.acq_rel.gpu; atom.global.exch.b32 %r3, [%d1], 0; st.global.u32 [%d2], %r2;)");
  expect_ptxas_accepts(text);
  Loaded module(text);
  std::vector<unsigned> out(256);
  unsigned words[2] = {};
  ASSERT_EQ(module.run("k", {}, {256, 1, 1}, out.data(), &words[0]).outcome, LaunchOutcome::kOk);
  EXPECT_EQ(words[1], 256u);
}

TEST(SpinLoop, OnAVolatileWordSeesWhatALaterThreadWrites) {
  for (const char* load :
       {"ld.volatile.shared.u32 %r2,", "ld.relaxed.cta.shared.u32 %r2,",
        "ld.acquire.cta.shared.u32 %r2,",
        "ld.relaxed.cta.shared.v2.u64 {%d4, %d5}, [s]; cvt.u32.u64 %r2, %d4; ld.shared.u32 %r3,",
        "ld.volatile.shared.v4.u32 {%r2, %r3, %r4, %r5},"}) {
    const std::string text = cooperating_kernel(
        "mov.u32 %r1, 0; setp.eq.u32 %p1, %r0, 0; @%p1 st.shared.u32 [s], %r1; bar.sync 0; "
        "setp.eq.u32 "
        "%p0, %r0, 63; @%p0 bra WRITE; SPIN: " +
            std::string(load) +
            " [s]; setp.eq.u32 %p2, %r2, 0; @%p2 bra SPIN; bra END; WRITE: mov.u32 %r2, 9; "
            "st.volatile.shared.u32 [s], %r2; END: st.global.u32 [%d2], %r2;",
        ".shared .align 16 .b8 s[16];\n");
    expect_ptxas_accepts(text);
    Loaded module(text);
    std::vector<unsigned> out(64);
    ASSERT_EQ(module.run("k", {}, {64, 1, 1}, out.data(), nullptr).outcome, LaunchOutcome::kOk);
    EXPECT_EQ(out, std::vector<unsigned>(64, 9));
  }
}

TEST(SpinLoop, InADeviceFunctionMakesProgress) {
  const std::string function =
      ".func wait_for(.param .b64 p) { .reg .b64 %a; .reg .b32 %b; .reg .pred %q; ld.param.b64 %a, "
      "[p]; L: ld.volatile.u32 %b, [%a]; setp.eq.u32 %q, %b, 0; @%q bra L; ret; }\n";
  const std::string text = cooperating_kernel(
      "setp.eq.u32 %p0, %r0, 31; @%p0 st.volatile.global.u32 [%d1], 4; { .param .b64 a; "
      "st.param.b64 [a], %d1; call wait_for, (a); } st.global.u32 [%d2], 3;",
      function);
  Loaded module(text);
  std::vector<unsigned> out(32);
  unsigned word = 0;
  ASSERT_EQ(module.run("k", {}, {32, 1, 1}, out.data(), &word).outcome, LaunchOutcome::kOk);
  EXPECT_EQ(out, std::vector<unsigned>(32, 3));
}

TEST(SpinLoop, OnABlockThatHasNotStartedMakesProgress) {
  // Block 0 waits for the last block: more blocks than the host has threads must run at a time.
  const std::string text =
      cooperating_kernel(R"(mov.u32 %r1, %ctaid.x; setp.ne.u32 %p0, %r1, 0; @%p0 bra COUNT;
SPIN: ld.volatile.global.u32 %r2, [%d1]; setp.ne.u32 %p1, %r2, 39; @%p1 bra SPIN; st.global.u32 [%d0], %r2; ret;
COUNT: red.global.add.u32 [%d1], 1;)");
  Loaded module(text);
  unsigned out = 0;
  unsigned word = 0;
  ASSERT_EQ(module.run("k", {40, 1, 1}, {1, 1, 1}, &out, &word).outcome, LaunchOutcome::kOk);
  EXPECT_EQ(out, 39u);
}

}  // namespace
}  // namespace sluice::softgpu::test
