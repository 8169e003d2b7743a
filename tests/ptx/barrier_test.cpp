// Barriers: everybody waits for those a barrier names, reductions see all predicates, threads that
// have ended are not waited for, and what can never go on is reported with its reason.
#include "tests/ptx/cooperation.h"

#include <gtest/gtest.h>

namespace sluice::softgpu::test {
namespace {

using Words = std::vector<unsigned>;

/// Runs one block; the kernel's text must also satisfy ptxas.
LaunchResult run(const std::string& text, unsigned threads, Words* out, unsigned blocks = 1) {
  expect_ptxas_accepts(text);
  Loaded module(text);
  return module.run("k", {blocks, 1, 1}, {threads, 1, 1}, out->data(), nullptr);
}

const std::string kShared = ".shared .align 4 .b8 s[4096];\n";
/// Writes tid + 1 to shared memory, waits, reads what thread (n - 1 - tid) wrote.
std::string reverse(const std::string& barrier) {
  return "mov.u32 %r1, s; shl.b32 %r2, %r0, 2; add.u32 %r3, %r1, %r2; add.u32 %r4, %r0, 1;\n"
         "st.shared.u32 [%r3], %r4;\n" +
         barrier +
         "\nmov.u32 %r5, %ntid.x; sub.u32 %r5, %r5, %r4; shl.b32 %r5, %r5, 2; add.u32 %r5, %r1, "
         "%r5; ld.shared.u32 %r6, [%r5]; st.global.u32 [%d2], %r6;";
}

TEST(Barrier, MakesSharedMemoryOfAllThreadsVisible) {
  for (const char* barrier :
       {"bar.sync 0;", "bar.cta.sync 3;", "barrier.sync 1;", "barrier.cta.sync.aligned 15;",
        "mov.u32 %r7, 5; bar.sync %r7;", "mov.u32 %r7, %ntid.x; bar.sync 2, %r7;"}) {
    for (const unsigned threads : {1u, 32u, 64u, 256u, 1024u}) {
      if (threads % 32 != 0 && std::string(barrier).find("2, %r7") != std::string::npos) continue;
      Words out(threads);
      ASSERT_EQ(run(cooperating_kernel(reverse(barrier), kShared), threads, &out).outcome,
                LaunchOutcome::kOk)
          << barrier;
      for (unsigned t = 0; t < threads; ++t) ASSERT_EQ(out[t], threads - t) << barrier;
    }
  }
}

TEST(Barrier, InALoopKeepsRoundsApart) {
  // Every round thread t takes the value of its neighbour and adds one.
  const std::string text = cooperating_kernel(R"(
mov.u32 %r1, s; shl.b32 %r2, %r0, 2; add.u32 %r3, %r1, %r2; st.shared.u32 [%r3], %r0;
mov.u32 %r4, %ntid.x; sub.u32 %r5, %r4, 1; add.u32 %r6, %r0, 1; rem.u32 %r6, %r6, %r4; shl.b32 %r6, %r6, 2;
add.u32 %r6, %r1, %r6; mov.u32 %r7, 0;
LOOP: bar.sync 0; ld.shared.u32 %r8, [%r6]; add.u32 %r8, %r8, 1; bar.sync 0; st.shared.u32 [%r3], %r8;
add.u32 %r7, %r7, 1; setp.lt.u32 %p0, %r7, 10; @%p0 bra LOOP;
st.global.u32 [%d2], %r8;)",
                                              kShared);
  Words out(100);
  ASSERT_EQ(run(text, 100, &out).outcome, LaunchOutcome::kOk);
  for (unsigned t = 0; t < 100; ++t) EXPECT_EQ(out[t], (t + 10) % 100 + 10);
}

TEST(Barrier, DoesNotWaitForThreadsThatHaveEnded) {
  const std::string text = cooperating_kernel(
      "setp.ge.u32 %p0, %r0, 40; @%p0 ret;\nbar.sync 0; st.global.u32 [%d2], 7;");
  Words out(96);
  ASSERT_EQ(run(text, 96, &out).outcome, LaunchOutcome::kOk);
  for (unsigned t = 0; t < 96; ++t) EXPECT_EQ(out[t], t < 40 ? 7u : 0u);
}

TEST(Barrier, WithACountLetsProducersGoOn) {
  // Warp 1 arrives and goes on to barrier 2, which warp 0 only reaches after barrier 1.
  const std::string text = cooperating_kernel(R"(
setp.ge.u32 %p0, %r0, 32; @%p0 bra PRODUCER;
bar.sync 1, 64; ld.shared.u32 %r3, [s]; st.global.u32 [%d2], %r3; bar.sync 2, 64; ret;
PRODUCER: mov.u32 %r2, 99; st.shared.u32 [s], %r2; bar.arrive 1, 64; st.global.u32 [%d2], 5; bar.sync 2, 64;)",
                                              kShared);
  Words out(64);
  ASSERT_EQ(run(text, 64, &out).outcome, LaunchOutcome::kOk);
  for (unsigned t = 0; t < 64; ++t) EXPECT_EQ(out[t], t < 32 ? 99u : 5u);
}

TEST(Barrier, WithACountTakesAPartialWarpAsWhole) {
  const std::string text = cooperating_kernel("bar.sync 1, 64; st.global.u32 [%d2], 3;");
  Words out(48);
  ASSERT_EQ(run(text, 48, &out).outcome, LaunchOutcome::kOk);
  EXPECT_EQ(out, Words(48, 3));
}

TEST(Barrier, ReducesPredicatesOfAllThreads) {
  const std::string text = cooperating_kernel(R"(
setp.lt.u32 %p0, %r0, 33; bar.red.popc.u32 %r1, 0, %p0; barrier.cta.red.popc.aligned.u32 %r2, 1, !%p0;
bar.red.or.pred %p1, 0, %p0; bar.red.and.pred %p2, 0, %p0; setp.lt.u32 %p3, %r0, 1000; bar.red.and.pred %p4, 2, %p3;
bar.red.or.pred %p5, 0, !%p3; mov.u32 %r9, %ntid.x; bar.red.popc.u32 %r10, 0, %r9, %p0; sub.u32 %r10, %r10, %r1;
shl.b32 %r2, %r2, 8; or.b32 %r1, %r1, %r2; selp.u32 %r3, 65536, 0, %p1; or.b32 %r1, %r1, %r3;
selp.u32 %r3, 131072, 0, %p2; or.b32 %r1, %r1, %r3; selp.u32 %r3, 262144, 0, %p4; or.b32 %r1, %r1, %r3;
selp.u32 %r3, 524288, 0, %p5; or.b32 %r1, %r1, %r3; add.u32 %r1, %r1, %r10; st.global.u32 [%d2], %r1;)");
  Words out(64);
  ASSERT_EQ(run(text, 64, &out).outcome, LaunchOutcome::kOk);
  EXPECT_EQ(out, Words(64, 33 + (31 << 8) + 65536 + 262144));
}

TEST(Barrier, ThatNotAllReachIsADeadlockWithItsReason) {
  const std::string text = cooperating_kernel(
      "setp.lt.u32 %p0, %r0, 32;\n@%p0 bra A;\nbar.sync 1;\nbra B;\nA: bar.sync 2;\nB: ");
  Words out(64);
  const LaunchResult result = run(text, 64, &out);
  EXPECT_EQ(result.outcome, LaunchOutcome::kFailed);
  EXPECT_NE(result.detail.find("deadlock: 32 thread(s) from (0, 0, 0) wait at barrier 2 (line "),
            std::string::npos)
      << result.detail;
  EXPECT_NE(result.detail.find("32 thread(s) from (32, 0, 0) wait at barrier 1"), std::string::npos)
      << result.detail;
  // The block's leftovers do no harm to the next launch on this thread.
  ASSERT_EQ(run(cooperating_kernel(reverse("bar.sync 0;"), kShared), 64, &out).outcome,
            LaunchOutcome::kOk);
  EXPECT_EQ(out[0], 64u);
}

TEST(Barrier, WithTooFewArrivalsIsADeadlock) {
  const std::string text = cooperating_kernel(
      "setp.lt.u32 %p0, %r0, 32; @%p0 bar.sync 1, 64; "
      "@!%p0 bar.sync 2, 96;");
  Words out(96);
  EXPECT_EQ(run(text, 96, &out).outcome, LaunchOutcome::kFailed);
}

TEST(Barrier, KeepsRegistersAndLocalMemoryOfEveryThread) {
  const std::string text = cooperating_kernel(R"(
.local .align 8 .b8 l[64]; mov.u64 %d3, l; cvta.local.u64 %d3, %d3; and.b32 %r1, %r0, 15; mul.wide.u32 %d4, %r1, 4;
add.u64 %d5, %d3, %d4; mul.lo.u32 %r2, %r0, 3; st.u32 [%d5], %r2; mul.wide.u32 %d6, %r0, 5;
bar.sync 0; ld.local.u32 %r3, [%d5]; cvt.u32.u64 %r4, %d6; add.u32 %r3, %r3, %r4; st.global.u32 [%d2], %r3;)");
  Words out(128);
  ASSERT_EQ(run(text, 128, &out).outcome, LaunchOutcome::kOk);
  for (unsigned t = 0; t < 128; ++t) EXPECT_EQ(out[t], 8 * t);
}

TEST(Barrier, InADeviceFunctionIsTheSameBarrier) {
  const std::string function =
      kShared +
      ".func (.param .b32 r) swap(.param .b32 x, .param .b32 y) { .reg .b32 %a<4>; ld.param.b32 "
      "%a0, "
      "[x]; mov.u32 %a2, s; shl.b32 %a3, %a0, 2; add.u32 %a2, %a2, %a3; st.shared.u32 [%a2], %a0; "
      "bar.sync 0; xor.b32 %a3, %a3, 4; mov.u32 %a2, s; add.u32 %a2, %a2, %a3; ld.shared.u32 %a1, "
      "[%a2]; bar.sync 0; ld.param.b32 %a3, [y]; add.u32 %a1, %a1, %a3; st.param.b32 [r], %a1; "
      "ret; }\n";
  const std::string call =
      "{ .param .b32 a; .param .b32 b; .param .b32 c; st.param.b32 [a], %r0; st.param.b32 [b], "
      "%r1; "
      "call (c), swap, (a, b); ld.param.b32 %r1, [c]; }\n";
  const std::string text = cooperating_kernel(
      "mov.u32 %r1, 100;\n" + call + call + "st.global.u32 [%d2], %r1;", function);
  Words out(64);
  ASSERT_EQ(run(text, 64, &out).outcome, LaunchOutcome::kOk);
  for (unsigned t = 0; t < 64; ++t) EXPECT_EQ(out[t], 100 + 2 * (t ^ 1u));
}

TEST(Barrier, InARecursiveFunctionIsRefusedWithItsReason) {
  const std::string text = cooperating_kernel(
      "{ .param .b32 a; st.param.b32 [a], %r0; call f, (a); }",
      ".func f(.param .b32 x) { .reg .b32 %a<2>; .reg .pred %q; ld.param.b32 %a0, [x]; bar.sync 0; "
      "setp.eq.u32 %q, %a0, 0; @%q ret; sub.u32 %a0, %a0, 1; { .param .b32 p; st.param.b32 [p], "
      "%a0; call f, (p); } ret; }\n");
  EXPECT_NE(
      prepare_error(text).find(
          "kernel k: a function that may call itself, perhaps through a pointer, waits for other"),
      std::string::npos)
      << prepare_error(text);
}

TEST(Barrier, LeavesAWildSharedAddressAFault) {
  const std::string text = cooperating_kernel(
      "bar.sync 0; mov.u32 %r1, 0x10000000; ld.shared.u32 %r2, [%r1]; bar.sync "
      "0; st.global.u32 [%d2], %r2;");
  Words out(64);
  EXPECT_EQ(run(text, 64, &out).outcome, LaunchOutcome::kIllegalAddress);
}

TEST(Barrier, KeepsBlocksApart) {
  const std::string text = cooperating_kernel(R"(
mov.u32 %r10, %ctaid.x; mov.u32 %r1, s; shl.b32 %r2, %r0, 2; add.u32 %r3, %r1, %r2; mad.lo.u32 %r4, %r0, 77, %r10;
st.shared.u32 [%r3], %r4; bar.sync 0; mov.u32 %r5, 127; sub.u32 %r5, %r5, %r0; shl.b32 %r5, %r5, 2; add.u32 %r5, %r1, %r5;
ld.shared.u32 %r6, [%r5]; shl.b32 %r7, %r10, 9; cvt.u64.u32 %d3, %r7; add.u64 %d2, %d2, %d3; st.global.u32 [%d2], %r6;)",
                                              kShared);
  Words out(128 * 200);
  ASSERT_EQ(run(text, 128, &out, 200).outcome, LaunchOutcome::kOk);
  for (unsigned b = 0; b < 200; ++b)
    for (unsigned t = 0; t < 128; ++t) ASSERT_EQ(out[b * 128 + t], (127 - t) * 77 + b);
}

}  // namespace
}  // namespace sluice::softgpu::test
