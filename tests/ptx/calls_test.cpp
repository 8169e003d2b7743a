// What kernels ask of their surroundings: printf, the heap, assertions, traps; and how a kernel
// ends that would not end by itself.
#include "softgpu/exec/services.h"
#include "tests/ptx/cooperation.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <thread>

namespace sluice::softgpu::test {
namespace {

/// What printf sinks got while one of these lives.
class Printed {
 public:
  Printed() {
    set_printf_sink([](const char* data, std::size_t bytes,
                       void* self) { static_cast<Printed*>(self)->text.append(data, bytes); },
                    this);
  }
  ~Printed() { set_printf_sink(nullptr, nullptr); }
  Printed(const Printed&) = delete;
  Printed& operator=(const Printed&) = delete;
  std::string text;
};

std::string bytes_of(const std::string& text) {
  std::string out;
  for (const char c : text) out += std::to_string(static_cast<int>(c)) + ", ";
  return out + "0";
}

std::string string_variable(const std::string& name, const std::string& text) {
  return ".global .align 1 .b8 " + name + "[" + std::to_string(text.size() + 1) + "] = {" +
         bytes_of(text) + "};\n";
}

const std::string kPrototypes =
    ".extern .func (.param .b32 r) vprintf (.param .b64 f, .param .b64 a);\n"
    ".extern .func (.param .b64 r) malloc (.param .b64 n);\n"
    ".extern .func free (.param .b64 p);\n"
    ".extern .func __assertfail (.param .b64 m, .param .b64 f, .param .b32 l, .param .b64 n, "
    ".param .b64 s);\n";

/// Calls vprintf with `format` and 40 bytes of arguments that `fill` puts into [buffer].
std::string printing(const std::string& fill) {
  return ".local .align 8 .b8 buffer[40]; mov.u64 %d3, buffer; cvta.local.u64 %d3, %d3;\n" + fill +
         "\nmov.u64 %d4, format; cvta.global.u64 %d4, %d4; { .param .b64 f; .param .b64 a; .param "
         ".b32 r; st.param.b64 [f], %d4; st.param.b64 [a], %d3; call (r), vprintf, (f, a); "
         "ld.param.b32 %r1, [r]; } st.global.u32 [%d0], %r1;";
}

struct Output {
  std::string text;
  int taken = -9;
  LaunchResult result;
};

Output print(const std::string& format, const std::string& fill, unsigned threads = 1) {
  const std::string ptx =
      cooperating_kernel(printing(fill), kPrototypes + string_variable("format", format) +
                                             string_variable("word", "w"));
  expect_ptxas_accepts(ptx);
  Printed printed;
  Loaded module(ptx);
  Output out;
  LaunchConfig config;
  config.block.x = threads;
  config.services = std::make_shared<KernelServices>();
  Loaded::push(&config.params, &out.taken);
  out.result = module.run("k", config);
  config.services->flush();
  out.text = printed.text;
  return out;
}

TEST(Printf, TakesEachArgumentAtAMultipleOfItsSize) {
  const Output out = print("%d|%5.2f|%lld|%c|%s|%%", R"(mov.u32 %r1, -7; st.local.u32 [buffer], %r1;
mov.b64 %d5, 0d400921FB54442D18; st.local.u64 [buffer+8], %d5; mov.u64 %d5, 0x123456789A; st.local.u64 [buffer+16], %d5;
mov.u32 %r1, 88; st.local.u32 [buffer+24], %r1; mov.u64 %d5, word; cvta.global.u64 %d5, %d5; st.local.u64 [buffer+32], %d5;)");
  EXPECT_EQ(out.text, "-7| 3.14|78187493530|X|w|%");
  EXPECT_EQ(out.taken, 5);
}

TEST(Printf, KnowsWidthsPrecisionsAndLengths) {
  const Output out =
      print("[%*d][%-6.*s][%#lx][%08hhx][%e]", R"(mov.u32 %r1, 6; st.local.u32 [buffer], %r1;
mov.u32 %r1, 42; st.local.u32 [buffer+4], %r1; mov.u32 %r1, 1; st.local.u32 [buffer+8], %r1;
mov.u64 %d5, word; cvta.global.u64 %d5, %d5; st.local.u64 [buffer+16], %d5; mov.u64 %d5, 255; st.local.u64 [buffer+24], %d5;
mov.u32 %r1, 0x1FF; st.local.u32 [buffer+32], %r1; )");
  EXPECT_EQ(out.text.substr(0, 30), "[    42][w     ][0xff][000000f");
  EXPECT_EQ(out.taken, 7);
}

TEST(Printf, KeepsTheOrderOfAWarpsThreads) {
  const Output out = print("%u ", "st.local.u32 [buffer], %r0;", 40);
  std::string expected;
  for (int t = 0; t < 40; ++t) expected += std::to_string(t) + " ";
  EXPECT_EQ(out.text, expected);
}

TEST(Printf, OfABadStringIsAFaultOfTheKernel) {
  const Output out = print("%s", "mov.u64 %d5, 64; st.local.u64 [buffer], %d5;");
  EXPECT_EQ(out.result.outcome, LaunchOutcome::kIllegalAddress);
}

TEST(Printf, LosesTheOldestTextWhenTheFifoIsFull) {
  Printed printed;
  KernelServices services;
  services.set_fifo_bytes(1000);
  for (int k = 0; k < 500; ++k) services.print("line " + std::to_string(k) + "\n");
  EXPECT_EQ(printed.text, "");
  services.flush();
  EXPECT_LE(printed.text.size(), 1000u);
  EXPECT_GE(printed.text.size(), 980u);
  EXPECT_TRUE(printed.text.ends_with("line 498\nline 499\n"));
  services.flush();
  EXPECT_TRUE(printed.text.ends_with("line 498\nline 499\n"));
}

TEST(Heap, GivesMemoryUntilItsLimitAndTakesItBack) {
  const std::string ptx = cooperating_kernel(
      "mov.u64 %d3, 65536; { .param .b64 n; .param .b64 r; st.param.b64 [n], %d3; call (r), "
      "malloc, "
      "(n); ld.param.b64 %d4, [r]; } setp.eq.u64 %p0, %d4, 0; selp.u32 %r1, 0, 1, %p0; @%p0 bra "
      "END; "
      "st.u32 [%d4+65532], %r0; ld.u32 %r2, [%d4+65532]; add.u32 %r1, %r1, %r2;\nand.b32 %r3, %r0, "
      "1; setp.eq.u32 %p1, %r3, 0; @%p1 bra END; { .param .b64 p; st.param.b64 [p], %d4; call "
      "free, "
      "(p); }\nEND: st.global.u32 [%d2], %r1;",
      kPrototypes);
  expect_ptxas_accepts(ptx);
  Loaded module(ptx);
  std::vector<unsigned> out(16);
  LaunchConfig config;
  config.block.x = 16;
  config.services = std::make_shared<KernelServices>();
  config.services->set_heap_bytes(4 * 65536);
  Loaded::push(&config.params, out.data());
  ASSERT_EQ(module.run("k", config).outcome, LaunchOutcome::kOk);
  // Threads with even numbers keep theirs: 0, 1, 2, 3, 4, 5, 6 have memory, then it is used up.
  for (unsigned t = 0; t < 16; ++t) EXPECT_EQ(out[t], t < 7 ? t + 1 : 0u) << t;
}

TEST(Heap, IgnoresWhatIsNotItsOwn) {
  KernelServices services;
  int mine = 0;
  services.release(&mine);
  services.release(nullptr);
  void* memory = services.allocate(100);
  ASSERT_NE(memory, nullptr);
  services.release(memory);
  services.release(memory);
  EXPECT_EQ(services.allocate(0), nullptr);
}

TEST(Assertion, EndsTheKernelWithCudasMessage) {
  const std::string ptx = cooperating_kernel(
      "setp.ne.u32 %p0, %r0, 3; @%p0 bra END; mov.u64 %d3, m; cvta.global.u64 %d3, %d3; mov.u64 "
      "%d4, f; "
      "cvta.global.u64 %d4, %d4; mov.u64 %d5, n; cvta.global.u64 %d5, %d5; { .param .b64 a; .param "
      ".b64 b; .param .b32 c; .param .b64 d; .param .b64 e; st.param.b64 [a], %d3; st.param.b64 "
      "[b], "
      "%d4; st.param.b32 [c], 77; st.param.b64 [d], %d5; st.param.b64 [e], 1; call __assertfail, "
      "(a, "
      "b, c, d, e); }\nEND:",
      kPrototypes + string_variable("m", "x > 0") + string_variable("f", "file.cu") +
          string_variable("n", "void k()"));
  expect_ptxas_accepts(ptx);
  Loaded module(ptx);
  const LaunchResult result = module.run("k", {}, {32, 1, 1}, nullptr, nullptr);
  EXPECT_EQ(result.outcome, LaunchOutcome::kAssert);
  EXPECT_NE(result.detail.find("file.cu:77: void k(): block: [0,0,0], thread: [3,0,0] Assertion `x "
                               "> 0` failed."),
            std::string::npos)
      << result.detail;
}

TEST(Trap, EndsAKernelWhoseThreadsWait) {
  Loaded module(cooperating_kernel(
      "bar.sync 0; setp.eq.u32 %p0, %r0, 33; @%p0 trap; bar.sync 0; st.global.u32 [%d2], 1;"));
  std::vector<unsigned> out(64);
  EXPECT_EQ(module.run("k", {}, {64, 1, 1}, out.data(), nullptr).outcome, LaunchOutcome::kTrap);
  EXPECT_EQ(out, std::vector<unsigned>(64));
}

/// Runs the kernel on a thread, cancels it once it has written a word, and waits for its end.
LaunchOutcome cancel_when_running(const std::string& ptx, Dim3 grid, Dim3 block) {
  Loaded module(ptx);
  unsigned word = 0;
  std::atomic<bool> is_cancelled{false};
  LaunchConfig config;
  config.grid = grid;
  config.block = block;
  config.is_cancelled = [&] { return is_cancelled.load(); };
  Loaded::push(&config.params, &word);
  LaunchResult result;
  std::thread launcher([&] { result = module.run("k", config); });
  while (std::atomic_ref(word).load() == 0) std::this_thread::yield();
  is_cancelled = true;
  launcher.join();
  return result.outcome;
}

TEST(Watchdog, EndsAnEndlessLoop) {
  for (const char* loop :
       {"L: bra L;", "L: bar.sync 0; bra L;", "L: ld.volatile.global.u32 %r1, [%d0]; bra L;",
        "L: nanosleep.u32 100; bra L;", "L: shfl.sync.idx.b32 %r1, %r0, 0, 31, -1; bra L;",
        "L: fma.rm.f32 %r1, %r1, %r2, %r1; sqrt.rz.f64 %d5, %d5; bra L;"})
    EXPECT_EQ(cancel_when_running(
                  cooperating_kernel("st.volatile.global.u32 [%d0], 1;\n" + std::string(loop)),
                  {3, 1, 1}, {32, 1, 1}),
              LaunchOutcome::kCancelled)
        << loop;
}

TEST(Watchdog, DoesNotInterruptAKernelThatHoldsALock) {
  const std::string body =
      "L: st.volatile.global.u32 [%d0], 1; mov.u64 %d3, 16; { .param .b64 n; .param .b64 r; "
      "st.param.b64 [n], %d3; call (r), malloc, (n); ld.param.b64 %d4, [r]; } { .param .b64 p; "
      "st.param.b64 [p], %d4; call free, (p); } bra L;";
  for (int k = 0; k < 5; ++k)  // a lock that the jump left behind would block the next round
    EXPECT_EQ(cancel_when_running(cooperating_kernel(body, kPrototypes), {2, 1, 1}, {}),
              LaunchOutcome::kCancelled);
}

TEST(Watchdog, EndsTheOtherBlocksWhenOneFails) {
  Loaded module(
      cooperating_kernel("mov.u32 %r1, %ctaid.x; setp.eq.u32 %p0, %r1, 1; @%p0 trap; L: bra L;"));
  // With one host thread block 0 alone would run for ever.
  if (worker_thread_count() < 2) GTEST_SKIP() << "needs two host threads";
  EXPECT_EQ(module.run("k", {2, 1, 1}, {}, nullptr, nullptr).outcome, LaunchOutcome::kTrap);
}

TEST(CooperativeGrid, SynchronisesAllBlocksThroughItsWorkspace) {
  // The protocol of cooperative groups: the workspace's address is in envreg 1 (high) and 2.
  const std::string ptx =
      cooperating_kernel(R"(mov.u32 %r1, %envreg1; mov.u32 %r2, %envreg2; mov.b64 %d3, {%r2, %r1};
mov.u32 %r3, %nctaid.x; mov.u32 %r10, 0;
ROUND: add.u32 %r10, %r10, 1; bar.sync 0; setp.ne.u32 %p0, %r0, 0; @%p0 bra WAIT;
red.global.add.u32 [%d1], 1; mul.lo.u32 %r4, %r3, %r10; atom.add.release.gpu.u32 %r5, [%d3+4], 1;
SPIN: ld.acquire.gpu.u32 %r5, [%d3+4]; setp.lt.u32 %p1, %r5, %r4; @%p1 bra SPIN;
WAIT: bar.sync 0; ld.volatile.global.u32 %r6, [%d1]; setp.lt.u32 %p2, %r6, %r4; @%p2 trap; setp.lt.u32 %p3, %r10, 20; @%p3 bra ROUND;
mov.u32 %r7, %ctaid.x; mul.wide.u32 %d4, %r7, 4; add.u64 %d4, %d0, %d4; st.global.u32 [%d4], %r6;)");
  expect_ptxas_accepts(ptx);
  Loaded module(ptx);
  std::vector<unsigned> out(100);
  unsigned count = 0;
  LaunchConfig config;
  config.grid.x = 100;
  config.block.x = 48;
  config.is_cooperative = true;
  Loaded::push(&config.params, out.data());
  Loaded::push(&config.params, &count);
  const LaunchResult result = module.run("k", config);
  ASSERT_EQ(result.outcome, LaunchOutcome::kOk) << result.detail;
  EXPECT_EQ(count, 2000u);
  EXPECT_EQ(out, std::vector<unsigned>(100, 2000));
}

class Strict {
 public:
  Strict() { setenv("SOFTGPU_STRICT", "1", 1); }
  ~Strict() { unsetenv("SOFTGPU_STRICT"); }
  Strict(const Strict&) = delete;
  Strict& operator=(const Strict&) = delete;
};

TEST(Alignment, IsCheckedInStrictMode) {
  const std::string shared = ".shared .align 16 .b8 s[64];\n";
  for (const char* access :
       {"ld.global.u32 %r1, [%d3+2];", "st.global.u64 [%d3+4], %d3;", "ld.u16 %h0, [%d3+1];",
        "ld.global.v2.u32 {%r1, %r2}, [%d3+4];", "st.global.v4.u32 [%d3+8], {%r1, %r1, %r1, %r1};",
        "atom.global.add.u32 %r1, [%d3+6], 1;", "red.global.add.u64 [%d3+4], %d3;",
        "ld.shared.u32 %r1, [s+1];", "st.shared.u64 [s+4], %d3;",
        "atom.shared.cas.b32 %r1, [s+2], %r1, %r1;"}) {
    // %d3: `out` rounded up to 16
    const std::string ptx = cooperating_kernel(
        "add.u64 %d3, %d0, 15; and.b64 %d3, %d3, -16; bar.sync 0;\n" + std::string(access), shared);
    std::uint64_t out[8] = {};
    const Strict strict;
    Loaded module(ptx);
    const LaunchResult result = module.run("k", {}, {1, 1, 1}, &out[0], nullptr);
    EXPECT_EQ(result.outcome, LaunchOutcome::kMisalignedAddress) << access;
    EXPECT_NE(result.detail.find("misaligned access"), std::string::npos) << result.detail;
  }
}

TEST(Alignment, OfGoodAddressesIsNoErrorInStrictMode) {
  const Strict strict;
  Loaded module(cooperating_kernel(
      "add.u64 %d3, %d0, 15; and.b64 %d3, %d3, -16; mov.u32 %r1, 5; st.global.v4.u32 [%d3], {%r1, "
      "%r1, %r1, %r1}; ld.global.v2.u32 {%r2, %r3}, [%d3+8]; st.global.u8 [%d3+17], %r2; "
      "atom.global.add.u32 %r4, [%d3+4], 1; ld.global.u16 %h0, [%d3+2];"));
  std::uint64_t out[8] = {};
  EXPECT_EQ(module.run("k", {}, {1, 1, 1}, &out[0], nullptr).outcome, LaunchOutcome::kOk);
}

}  // namespace
}  // namespace sluice::softgpu::test
