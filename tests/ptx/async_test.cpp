// Copies to shared memory in the background, and barriers in memory.
#include "tests/ptx/cooperation.h"

#include <gtest/gtest.h>

#include <numeric>

namespace sluice::softgpu::test {
namespace {

const std::string kShared = ".shared .align 16 .b8 s[2048];\n.shared .align 8 .b64 bar;\n";

/// Each thread copies 16 bytes of `other` and reads what its neighbour copied.
std::string copying(const std::string& copy) {
  return cooperating_kernel(
      "shl.b32 %r1, %r0, 4; mov.u32 %r2, s; add.u32 %r2, %r2, %r1; cvt.u64.u32 %d3, %r1; add.u64 "
      "%d3, %d1, %d3; mov.u32 %r5, -1; st.shared.v4.u32 [%r2], {%r5, %r5, %r5, %r5};\n" +
          copy +
          "\nbar.sync 0; xor.b32 %r3, %r1, 16; mov.u32 %r2, s; add.u32 %r2, %r2, %r3; "
          "ld.shared.v4.u32 {%r4, %r5, %r6, %r7}, [%r2]; mul.wide.u32 %d4, %r0, 16; add.u64 %d4, "
          "%d0, %d4; st.global.v4.u32 [%d4], {%r4, %r5, %r6, %r7};",
      kShared);
}

struct Copy {
  std::string code;
  unsigned copied_bytes, zero_bytes;  ///< of each 16; the others stay -1
};

TEST(CopyAsync, BringsBytesAndFillsUpWithZeros) {
  const std::string wait = " cp.async.commit_group; cp.async.wait_group 0;";
  const std::vector<Copy> copies = {
      {"cp.async.cg.shared.global [%r2], [%d3], 16;" + wait, 16, 0},
      {"cp.async.ca.shared.global.L2::128B [%r2], [%d3], 16, 16;" + wait, 16, 0},
      {"cp.async.ca.shared.global [%r2], [%d3], 4; cp.async.wait_all;", 4, 0},
      {"cp.async.ca.shared.global [%r2], [%d3], 8, 4;" + wait, 4, 4},
      {"mov.u32 %r8, 8; cp.async.cg.shared.global [%r2], [%d3], 16, %r8;" + wait, 8, 8},
      {"setp.eq.u32 %p0, %r0, %r0; cp.async.ca.shared.global [%r2], [%d3], 8, %p0;" + wait, 0, 8},
      {"setp.ne.u32 %p0, %r0, %r0; cp.async.ca.shared.global [%r2], [%d3], 8, %p0;" + wait, 8, 0},
  };
  std::vector<unsigned> in(64 * 4);
  std::iota(in.begin(), in.end(), 1);
  for (const Copy& c : copies) {
    const std::string text = copying(c.code);
    expect_ptxas_accepts(text);
    Loaded module(text);
    std::vector<unsigned> out(64 * 4);
    const LaunchResult result = module.run("k", {}, {64, 1, 1}, out.data(), in.data());
    ASSERT_EQ(result.outcome, LaunchOutcome::kOk) << c.code << result.detail;
    for (unsigned t = 0; t < 64; ++t)
      for (unsigned k = 0; k < 4; ++k) {
        unsigned expected = ~0u;
        if (4 * k < c.copied_bytes + c.zero_bytes) expected = 0;
        if (4 * k < c.copied_bytes) expected = in[4 * (t ^ 1) + k];
        ASSERT_EQ(out[4 * t + k], expected) << c.code << " thread " << t << " word " << k;
      }
  }
}

TEST(CopyAsync, OfABadAddressIsAFault) {
  Loaded module(copying("cp.async.ca.shared.global [%r2], [%r0+64], 4;"));
  std::vector<unsigned> out(4);
  EXPECT_EQ(module.run("k", {}, {}, out.data(), nullptr).outcome, LaunchOutcome::kIllegalAddress);
}

TEST(CopyAsync, InBulkIsRefused) {
  const std::string message =
      prepare_error(copying("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                            "[%r2], [%d3], 16, [bar];"));
  EXPECT_NE(message.find("cp.async.bulk"), std::string::npos) << message;
}

/// Rounds in which every thread writes its word, arrives and waits by `wait`, and reads another's.
std::string meeting(const std::string& arrive_and_wait) {
  return cooperating_kernel(
      "setp.ne.u32 %p0, %r0, 0; @%p0 bra READY; mbarrier.init.shared.b64 [bar], 64; READY: "
      "bar.sync 0; mov.u32 %r9, 0; mov.u32 %r10, 0; shl.b32 %r1, %r0, 2; mov.u32 %r2, s; add.u32 "
      "%r2, %r2, %r1; xor.b32 %r3, %r1, 252; mov.u32 %r4, s; add.u32 %r4, %r4, %r3;\nROUND: "
      "add.u32 %r5, %r0, %r9; st.shared.u32 [%r2], %r5;\n" +
          arrive_and_wait +
          "\nld.volatile.shared.u32 %r6, [%r4]; add.u32 %r10, %r10, %r6; bar.sync 0; add.u32 %r9, "
          "%r9, 1; setp.lt.u32 %p1, %r9, 5; @%p1 bra ROUND; st.global.u32 [%d2], %r10;",
      kShared);
}

TEST(MemoryBarrier, LetsThreadsWaitForThePhase) {
  for (const std::string wait :
       {"mbarrier.arrive.shared.b64 %d3, [bar]; L: mbarrier.test_wait.shared.b64 %p2, [bar], %d3; "
        "@!%p2 bra L;",
        "mbarrier.arrive.shared.b64 _, [bar]; and.b32 %r7, %r9, 1; L: "
        "mbarrier.try_wait.parity.shared.b64 %p2, [bar], %r7; @!%p2 bra L;",
        // Threads with even numbers arrive for two.
        "and.b32 %r8, %r0, 1; setp.eq.u32 %p3, %r8, 0; @%p3 mbarrier.arrive.shared.b64 _, [bar], "
        "2; "
        "and.b32 %r7, %r9, 1; L: mbarrier.test_wait.parity.shared.b64 %p2, [bar], %r7; @!%p2 bra "
        "L;",
        "cp.async.mbarrier.arrive.shared.b64 [bar]; cp.async.mbarrier.arrive.noinc.shared.b64 "
        "[bar]; and.b32 %r7, %r9, 1; L: mbarrier.test_wait.parity.shared.b64 %p2, [bar], %r7; "
        "@!%p2 bra L;"}) {
    const std::string text = meeting(wait);
    expect_ptxas_accepts(text);
    Loaded module(text);
    std::vector<unsigned> out(64);
    const LaunchResult result = module.run("k", {}, {64, 1, 1}, out.data(), nullptr);
    ASSERT_EQ(result.outcome, LaunchOutcome::kOk) << wait << result.detail;
    for (unsigned t = 0; t < 64; ++t) EXPECT_EQ(out[t], 5 * (63 - t) + 10) << wait;
  }
}

TEST(MemoryBarrier, CountsPendingThreadsAndForgetsThoseThatLeave) {
  const std::string text = cooperating_kernel(
      "mbarrier.init.shared.b64 [bar], 3; mbarrier.arrive_drop.shared.b64 %d3, [bar]; "
      "mbarrier.pending_count.b64 %r1, %d3; st.global.u32 [%d0], %r1; mbarrier.arrive.shared.b64 "
      "%d3, [bar]; mbarrier.pending_count.b64 %r1, %d3; st.global.u32 [%d0+4], %r1; "
      "mbarrier.test_wait.shared.b64 %p0, [bar], %d3; selp.u32 %r1, 1, 0, %p0; st.global.u32 "
      "[%d0+8], %r1; mbarrier.arrive.shared.b64 %d4, [bar]; mbarrier.test_wait.shared.b64 %p0, "
      "[bar], %d3; selp.u32 %r1, 1, 0, %p0; st.global.u32 [%d0+12], %r1; "
      "mbarrier.arrive.shared.b64 %d3, [bar]; mbarrier.pending_count.b64 %r1, %d3; st.global.u32 "
      "[%d0+16], %r1; mbarrier.inval.shared.b64 [bar];",
      kShared);
  expect_ptxas_accepts(text);
  Loaded module(text);
  std::vector<unsigned> out(5, 99);
  ASSERT_EQ(module.run("k", {}, {}, out.data(), nullptr).outcome, LaunchOutcome::kOk);
  EXPECT_EQ(out, (std::vector<unsigned>{3, 2, 0, 1, 2}));
}

}  // namespace
}  // namespace sluice::softgpu::test
