// Calls through pointers, and threads that end inside device functions.
#include "tests/ptx/cooperation.h"

#include <gtest/gtest.h>

namespace sluice::softgpu::test {
namespace {

const std::string kFunctions =
    ".func (.param .b32 r) inc(.param .b32 x) { .reg .b32 %a; ld.param.b32 %a, [x]; add.u32 %a, "
    "%a, "
    "1; st.param.b32 [r], %a; ret; }\n"
    ".func (.param .b32 r) twice(.param .b32 x) { .reg .b32 %a; ld.param.b32 %a, [x]; bar.sync 0; "
    "add.u32 %a, %a, %a; st.param.b32 [r], %a; ret; }\n"
    ".func other(.param .b64 x) { ret; }\n"
    ".global .align 8 .u64 table[3] = {inc, twice, other};\n";

/// Calls the function whose address is in %d3 with the thread's index.
const std::string kCall =
    "{ .param .b32 a; .param .b32 r; st.param.b32 [a], %r0; p: .callprototype (.param .b32 _) _ "
    "(.param .b32 _); call (r), %d3, (a), p; ld.param.b32 %r1, [r]; } st.global.u32 [%d2], %r1;";

TEST(FunctionPointer, FromATableOfTheModuleIsCalled) {
  for (const unsigned which : {0u, 1u}) {  // the second one waits at a barrier
    const std::string text = cooperating_kernel(
        "ld.global.u64 %d3, [table+" + std::to_string(8 * which) + "];\n" + kCall, kFunctions);
    expect_ptxas_accepts(text);
    Loaded module(text);
    std::vector<unsigned> out(64);
    const LaunchResult result = module.run("k", {}, {64, 1, 1}, out.data(), nullptr);
    ASSERT_EQ(result.outcome, LaunchOutcome::kOk) << result.detail;
    for (unsigned t = 0; t < 64; ++t) EXPECT_EQ(out[t], which == 0 ? t + 1 : 2 * t);
  }
}

TEST(FunctionPointer, TakenByAnInstructionIsCalled) {
  const std::string text = cooperating_kernel(
      "mov.u64 %d3, inc; mov.u64 %d4, twice; setp.lt.u32 %p0, %r0, 0; selp.b64 %d3, %d4, %d3, "
      "%p0;\n" +
          kCall,
      kFunctions);
  expect_ptxas_accepts(text);
  Loaded module(text);
  std::vector<unsigned> out(32);
  ASSERT_EQ(module.run("k", {}, {32, 1, 1}, out.data(), nullptr).outcome, LaunchOutcome::kOk);
  for (unsigned t = 0; t < 32; ++t) EXPECT_EQ(out[t], t + 1);
}

TEST(FunctionPointer, MayStandInConstantMemoryAndInPackedStructures) {
  const std::string tables =
      ".const .align 8 .u64 constant[1] = {inc};\n"
      ".global .align 1 .u8 packed[10] = {7, 0XFF(twice), 0xFF00(twice), 0xFF0000(twice), "
      "0xFF000000(twice), 0xFF00000000(twice), 0xFF0000000000(twice), 0xFF000000000000(twice), "
      "0xFF00000000000000(twice), 9};\n";
  for (const bool is_packed : {false, true}) {
    std::string load = "ld.const.u64 %d3, [constant];\n";
    if (is_packed) load = "mov.u64 %d3, 0;\n";
    for (int byte = 8; is_packed && byte > 0; --byte)
      load += "shl.b64 %d3, %d3, 8; ld.global.u8 %d4, [packed+" + std::to_string(byte) +
              "]; or.b64 %d3, %d3, %d4;\n";
    const std::string text = cooperating_kernel(load + kCall, kFunctions + tables);
    expect_ptxas_accepts(text);
    Loaded module(text);
    std::vector<unsigned> out(32);
    const LaunchResult result = module.run("k", {}, {32, 1, 1}, out.data(), nullptr);
    ASSERT_EQ(result.outcome, LaunchOutcome::kOk) << result.detail;
    for (unsigned t = 0; t < 32; ++t) EXPECT_EQ(out[t], is_packed ? 2 * t : t + 1);
  }
}

TEST(FunctionPointer, TakenByOneKernelIsCalledByAnother) {
  const std::string taker =
      ".visible .entry take(.param .u64 out) { .reg .b64 %d<2>; ld.param.u64 %d0, [out]; mov.u64 "
      "%d1, lonely; st.global.u64 [%d0], %d1; ret; }\n";
  const std::string lonely =
      ".func (.param .b32 r) lonely(.param .b32 x) { .reg .b32 %a; ld.param.b32 %a, [x]; "
      "mul.lo.u32 "
      "%a, %a, 5; st.param.b32 [r], %a; ret; }\n";
  const std::string text =
      cooperating_kernel("ld.global.u64 %d3, [%d1];\n" + kCall, lonely + taker);
  expect_ptxas_accepts(text);
  Loaded module(text);
  std::uint64_t pointer = 0;
  ASSERT_EQ(module.run("take", {}, {}, &pointer).outcome, LaunchOutcome::kOk);
  std::vector<unsigned> out(32);
  ASSERT_EQ(module.run("k", {}, {32, 1, 1}, out.data(), &pointer).outcome, LaunchOutcome::kOk);
  for (unsigned t = 0; t < 32; ++t) EXPECT_EQ(out[t], 5 * t);
  Loaded other(text);  // has a function of the same number, which nobody means
  EXPECT_EQ(other.run("k", {}, {32, 1, 1}, out.data(), &pointer).outcome,
            LaunchOutcome::kInvalidPc);
}

TEST(FunctionPointer, ThatHoldsNoFunctionEndsTheKernel) {
  // Also one of another type: its parameters would be read from where there are none.
  for (const char* pointer : {"mov.u64 %d3, 0;", "mov.u64 %d3, 0x12345678;", "mov.u64 %d3, other;",
                              "mov.u64 %d3, both;", "mov.u64 %d3, inc; add.u64 %d3, %d3, 1;"}) {
    Loaded module(
        cooperating_kernel(std::string(pointer) + "\n" + kCall,
                           kFunctions + ".func both(.param .b32 x, .param .b32 y) { ret; }\n"));
    std::vector<unsigned> out(32);
    const LaunchResult result = module.run("k", {}, {32, 1, 1}, out.data(), nullptr);
    EXPECT_EQ(result.outcome, LaunchOutcome::kInvalidPc) << pointer;
    EXPECT_NE(result.detail.find("kernel k: call of 0x"), std::string::npos) << result.detail;
    EXPECT_NE(result.detail.find("where no function"), std::string::npos) << result.detail;
  }
}

TEST(FunctionPointer, ReadAsDataIsAFault) {
  Loaded module(cooperating_kernel(
      "mov.u64 %d3, inc; ld.global.u32 %r1, [%d3]; st.global.u32 [%d2], %r1;", kFunctions));
  unsigned out = 0;
  EXPECT_EQ(module.run("k", {}, {}, &out, nullptr).outcome, LaunchOutcome::kIllegalAddress);
}

TEST(FunctionPointer, NeedsNeitherResultsNorParameters) {
  const std::string text = cooperating_kernel(
      "mov.u64 %d3, nothing; { p: .callprototype ()_ (); call %d3, p; } st.global.u32 [%d2], 4;",
      ".global .u32 calls;\n.func nothing() { .reg .b32 %a; atom.global.add.u32 %a, [calls], 1; "
      "ret; }\n");
  expect_ptxas_accepts(text);
  Loaded module(text);
  std::vector<unsigned> out(32);
  ASSERT_EQ(module.run("k", {}, {32, 1, 1}, out.data(), nullptr).outcome, LaunchOutcome::kOk);
  unsigned calls = 0;
  std::memcpy(&calls, module.global("calls"), sizeof calls);
  EXPECT_EQ(calls, 32u);
  EXPECT_EQ(out, std::vector<unsigned>(32, 4));
}

TEST(FunctionPointer, WithAListOfTargetsIsCalled) {
  const std::string text = cooperating_kernel(
      "mov.u64 %d3, inc; { .param .b32 a; .param .b32 r; st.param.b32 [a], %r0; t: .calltargets "
      "inc, twice; call (r), %d3, (a), t; ld.param.b32 %r1, [r]; } st.global.u32 [%d2], %r1;",
      kFunctions);
  expect_ptxas_accepts(text);
  Loaded module(text);
  std::vector<unsigned> out(32);
  ASSERT_EQ(module.run("k", {}, {32, 1, 1}, out.data(), nullptr).outcome, LaunchOutcome::kOk);
  for (unsigned t = 0; t < 32; ++t) EXPECT_EQ(out[t], t + 1);
}

/// f(n) = n < 2 ? 1 : n * (*f)(n - 1)
std::string factorial(const std::string& wait) {
  return ".func (.param .b32 r) f(.param .b32 x) { .reg .b32 %a<3>; .reg .b64 %p; .reg .pred %q; "
         "ld.param.b32 %a0, [x]; st.param.b32 [r], 1; " +
         wait +
         " setp.lt.u32 %q, %a0, 2; @%q bra END; sub.u32 %a1, %a0, 1; mov.u64 %p, f; { .param .b32 "
         "a; .param .b32 s; st.param.b32 [a], %a1; p: .callprototype (.param .b32 _) _ (.param "
         ".b32 _); call (s), %p, (a), p; ld.param.b32 %a2, [s]; } mul.lo.u32 %a2, %a2, %a0; "
         "st.param.b32 [r], %a2; END: ret; }\n";
}

TEST(FunctionPointer, MayCallItsOwnFunctionAgain) {
  Loaded module(cooperating_kernel("mov.u64 %d3, f;\n" + kCall, factorial("")));
  std::vector<unsigned> out(8);
  ASSERT_EQ(module.run("k", {}, {8, 1, 1}, out.data(), nullptr).outcome, LaunchOutcome::kOk);
  EXPECT_EQ(out, (std::vector<unsigned>{1, 1, 2, 6, 24, 120, 720, 5040}));
}

TEST(FunctionPointer, OfARecursiveFunctionThatWaitsIsRefused) {
  const std::string message =
      prepare_error(cooperating_kernel("mov.u64 %d3, f;\n" + kCall, factorial("bar.sync 0;")));
  EXPECT_NE(message.find("kernel k: a function that may call itself"), std::string::npos)
      << message;
}

TEST(Alias, OfAFunctionIsCalled) {
  const std::string text = cooperating_kernel(
      "{ .param .b32 a; .param .b32 r; st.param.b32 [a], %r0; call (r), also, (a); ld.param.b32 "
      "%r1, [r]; } st.global.u32 [%d2], %r1;",
      kFunctions + ".visible .func (.param .b32 r) also(.param .b32 x);\n.alias also, inc;\n");
  Loaded module(text);
  std::vector<unsigned> out(32);
  ASSERT_EQ(module.run("k", {}, {32, 1, 1}, out.data(), nullptr).outcome, LaunchOutcome::kOk);
  for (unsigned t = 0; t < 32; ++t) EXPECT_EQ(out[t], t + 1);
}

TEST(Exit, InADeviceFunctionEndsTheThread) {
  const std::string function =
      ".func leave(.param .b32 x) { .reg .b32 %a; .reg .pred %q; ld.param.b32 %a, [x]; setp.lt.u32 "
      "%q, %a, 7; @%q exit; ret; }\n";
  for (const std::string wait : {"", "bar.sync 0;"}) {
    const std::string text =
        cooperating_kernel("{ .param .b32 a; st.param.b32 [a], %r0; call leave, (a); }\n" + wait +
                               " st.global.u32 [%d2], 1;",
                           function);
    expect_ptxas_accepts(text);
    Loaded module(text);
    std::vector<unsigned> out(64);
    ASSERT_EQ(module.run("k", {}, {64, 1, 1}, out.data(), nullptr).outcome, LaunchOutcome::kOk);
    for (unsigned t = 0; t < 64; ++t) EXPECT_EQ(out[t], t < 7 ? 0u : 1u);
  }
}

}  // namespace
}  // namespace sluice::softgpu::test
