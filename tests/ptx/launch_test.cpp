// Launches: indices, faults, traps, cancelling, several grids at once, control flow that nvcc
// seldom writes.
#include "tests/ptx/harness.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <atomic>
#include <numeric>
#include <thread>

namespace sluice::softgpu::test {
namespace {

std::string kernel(const std::string& body, const std::string& before = "") {
  return kHeader + before +
         ".visible .entry k(.param .u64 out, .param .u64 other) {\n.reg .b64 %d<8>; .reg .b32 "
         "%r<8>; .reg .pred %p<4>;\n"
         "ld.param.u64 %d0, [out]; ld.param.u64 %d1, [other];\n" +
         body + "\nret;\n}\n";
}

TEST(Launch, GivesEveryThreadItsIndices) {
  Loaded module(kernel(R"(
mov.u32 %r0, %ctaid.z; mov.u32 %r1, %nctaid.y; mov.u32 %r2, %ctaid.y; mad.lo.u32 %r0, %r0, %r1, %r2;
mov.u32 %r1, %nctaid.x; mov.u32 %r2, %ctaid.x; mad.lo.u32 %r0, %r0, %r1, %r2;
mov.u32 %r1, %ntid.z; mov.u32 %r2, %tid.z; mad.lo.u32 %r0, %r0, %r1, %r2;
mov.u32 %r1, %ntid.y; mov.u32 %r2, %tid.y; mad.lo.u32 %r0, %r0, %r1, %r2;
mov.u32 %r1, %ntid.x; mov.u32 %r2, %tid.x; mad.lo.u32 %r0, %r0, %r1, %r2;
mul.wide.u32 %d2, %r0, 4; add.u64 %d0, %d0, %d2; mov.u32 %r3, %laneid; mov.u32 %r4, %warpid; mad.lo.u32 %r4, %r4, 32, %r3;
mov.u32 %r5, %lanemask_lt; popc.b32 %r5, %r5; sub.u32 %r5, %r5, %r3; add.u32 %r4, %r4, %r5; add.u32 %r4, %r4, 1;
atom.global.add.u32 %r0, [%d0], %r4;)"));
  std::vector<int> out(5 * 3 * 2 * 7 * 4 * 2);
  ASSERT_EQ(module.run("k", {5, 3, 2}, {7, 4, 2}, out.data(), nullptr).outcome, LaunchOutcome::kOk);
  for (std::size_t k = 0; k < out.size(); ++k) ASSERT_EQ(out[k], static_cast<int>(k % 56) + 1);
}

TEST(Launch, EndsAKernelThatUsesABadAddressAndLives) {
  Loaded module(kernel("st.global.u32 [%d0], 1;"));
  void* const guarded = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(guarded, MAP_FAILED);
  for (const std::uintptr_t bad :
       {std::uintptr_t{0}, std::uintptr_t{8}, reinterpret_cast<std::uintptr_t>(guarded),
        ~std::uintptr_t{0} - 15}) {
    const LaunchResult result = module.run("k", {64, 1, 1}, {32, 1, 1}, bad, bad);
    EXPECT_EQ(result.outcome, LaunchOutcome::kIllegalAddress) << std::hex << bad;
    EXPECT_NE(result.detail.find("k"), std::string::npos) << result.detail;
  }
  munmap(guarded, 4096);
  int out = 0;
  EXPECT_EQ(module.run("k", {}, {}, &out, nullptr).outcome, LaunchOutcome::kOk);
  EXPECT_EQ(out, 1);
}

TEST(Launch, EndsAKernelThatLeavesItsSharedMemory) {
  Loaded module(
      kernel("mov.u32 %r0, s; add.u32 %r0, %r0, 65536; st.shared.u32 [%r0], 1; ld.shared.u32 %r1, "
             "[-4]; st.global.u32 [%d0], %r1;",
             ".shared .align 4 .b8 s[16];\n"));
  int out = 0;
  EXPECT_EQ(module.run("k", {}, {}, &out, nullptr).outcome, LaunchOutcome::kIllegalAddress);
}

TEST(Launch, ReportsEndlessRecursionAsAFault) {
  Loaded module(kernel("{ .param .b64 a; st.param.b64 [a], %d0; call f, (a); }",
                       ".func f(.param .b64 x) { .reg .b64 %a; .local .b8 big[4096]; ld.param.b64 "
                       "%a, [x]; st.local.b64 [big], %a; "
                       "{ .param .b64 p; st.param.b64 [p], %a; call f, (p); } ld.local.b64 %a, "
                       "[big+8]; st.global.b64 [%a], %a; ret; }\n"));
  LaunchResult result;
  std::thread([&] { result = module.run("k", {2, 1, 1}, {}, nullptr, nullptr); }).join();
  EXPECT_EQ(result.outcome, LaunchOutcome::kIllegalAddress);
}

TEST(Launch, LeavesFaultsOutsideKernelsToOthers) {
  Loaded module(kernel("st.global.u32 [%d0], 1;"));
  module.run("k", {}, {}, std::uintptr_t{0}, nullptr);
  void* page = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT_DEATH(*static_cast<volatile int*>(page) = 1, "");
}

TEST(Launch, ReportsTraps) {
  Loaded module(kernel("trap;"));
  EXPECT_EQ(module.run("k", {4, 1, 1}, {}, nullptr, nullptr).outcome, LaunchOutcome::kTrap);
}

TEST(Launch, StopsBetweenBlocksWhenCancelled) {
  Loaded module(kernel("atom.global.add.u32 %r0, [%d0], 1;"));
  unsigned count = 0;
  LaunchConfig config;
  config.grid.x = 1u << 30;
  config.is_cancelled = [&] { return std::atomic_ref(count).load() > 100; };
  Loaded::push(&config.params, &count);
  EXPECT_EQ(module.run("k", config).outcome, LaunchOutcome::kCancelled);
}

TEST(Launch, RunsNothingForAnEmptyGrid) {
  Loaded module(kernel("st.global.u32 [%d0], 1;"));
  EXPECT_EQ(module.run("k", {0, 1, 1}, {}, nullptr, nullptr).outcome, LaunchOutcome::kOk);
}

TEST(Launch, RunsGridsOfSeveralThreadsAtOnce) {
  Loaded module(kernel("atom.global.add.u32 %r0, [%d0], 1;"));
  std::vector<unsigned> counts(6);
  std::vector<std::thread> threads;
  for (unsigned& count : counts)
    threads.emplace_back([&] {
      for (int k = 0; k < 50; ++k) module.run("k", {20, 1, 1}, {8, 1, 1}, &count, nullptr);
    });
  for (std::thread& t : threads) t.join();
  for (const unsigned count : counts) EXPECT_EQ(count, 50u * 160);
}

TEST(Launch, FaultsOfOneGridLeaveOthersAlone) {
  Loaded module(kernel("st.global.u32 [%d0], 7;"));
  std::thread bad([&] {
    for (int k = 0; k < 50; ++k)
      EXPECT_EQ(module.run("k", {20, 1, 1}, {}, std::uintptr_t{16}, nullptr).outcome,
                LaunchOutcome::kIllegalAddress);
  });
  for (int k = 0; k < 50; ++k) {
    unsigned out = 0;
    EXPECT_EQ(module.run("k", {20, 1, 1}, {}, &out, nullptr).outcome, LaunchOutcome::kOk);
    EXPECT_EQ(out, 7u);
  }
  bad.join();
}

TEST(Launch, JumpsByIndex) {
  Loaded module(kernel(R"(mov.u32 %r0, %tid.x; mul.wide.u32 %d2, %r0, 4; add.u64 %d0, %d0, %d2;
list: .branchtargets A, B, C;
brx.idx %r0, list;
A: mov.u32 %r1, 10; bra.uni END;
B: mov.u32 %r1, 20; bra.uni END;
C: mov.u32 %r1, 30;
END: st.global.u32 [%d0], %r1;)"));
  int out[3] = {};
  ASSERT_EQ(module.run("k", {}, {3, 1, 1}, &out[0], nullptr).outcome, LaunchOutcome::kOk);
  EXPECT_EQ(out[0] + 2 * out[1] + 4 * out[2], 10 + 40 + 120);
}

TEST(Launch, TellsSharedFromGlobalAddresses) {
  Loaded module(kernel(
      R"(mov.u64 %d2, s; cvta.shared.u64 %d3, %d2; isspacep.shared %p0, %d3; isspacep.shared %p1, %d0;
isspacep.global %p2, %d0; mov.u32 %r0, 77; st.u32 [%d3+4], %r0; ld.shared.u32 %r1, [s+4]; cvta.to.shared.u64 %d4, %d3;
sub.u64 %d4, %d4, %d2; cvt.u32.u64 %r2, %d4; selp.u32 %r3, 1000, 0, %p0; selp.u32 %r4, 1, 0, %p1; selp.u32 %r5, 2000, 0, %p2;
add.u32 %r1, %r1, %r2; add.u32 %r1, %r1, %r3; add.u32 %r1, %r1, %r4; add.u32 %r1, %r1, %r5; st.global.u32 [%d0], %r1;)",
      ".shared .align 8 .b8 before[24];\n.shared .align 8 .b8 s[8];\n"));
  int out = 0;
  ASSERT_EQ(module.run("k", {}, {}, &out, nullptr).outcome, LaunchOutcome::kOk);
  EXPECT_EQ(out, 3077);
}

}  // namespace
}  // namespace sluice::softgpu::test
