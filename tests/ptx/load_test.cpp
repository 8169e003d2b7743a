// What Program::load accepts and refuses, and what it reports about a module.
#include "tests/ptx/harness.h"

#include <gtest/gtest.h>

namespace sluice::softgpu::test {
namespace {

std::string entry(const std::string& body, const std::string& before = "") {
  return kHeader + before + "\n.visible .entry k(.param .u64 out)\n{\n" + body + "\nret;\n}\n";
}

void expect_invalid(const std::string& ptx, const std::string& log) {
  const LoadError error = load_error(ptx);
  EXPECT_EQ(error.failure, LoadFailure::kInvalidPtx) << error.log;
  EXPECT_TRUE(error.log.starts_with("line ")) << error.log;
  EXPECT_NE(error.log.find(log), std::string::npos) << error.log;
}

TEST(Load, NamesTheLineOfASyntaxError) {
  expect_invalid(
      kHeader +
          ".visible .entry k()\n{\n.reg .b32 %r;\nmov.u32 %r, 1\nadd.u32 %r, %r, %r;\nret;\n}\n",
      "line 8");
  expect_invalid(entry(".reg .b32 %r; frobnicate.u32 %r, %r;"), "frobnicate");
  expect_invalid(entry("@%p bra L;"), "%p");
  expect_invalid(entry("mov.u32 %r, 12x;"), "");
  expect_invalid(entry(".reg .q32 %r;"), ".q32");
  expect_invalid(kHeader + ".visible .entry k() { ret;", "}");
  expect_invalid(kHeader + "nonsense", "nonsense");
  expect_invalid(kHeader + ".pragma \"nounroll\"", "\";\" is missing");
}

TEST(Load, NestingThatIsTooDeepIsASyntaxError) {
  // Broken: the parser's stack overflows (found by the fuzzer).
  const auto many = [](const std::string& text) {
    std::string out;
    for (int i = 0; i < 100'000; ++i) out += text;
    return out;
  };
  for (const std::string open : {"!", "(", "%r1|", "[%r1,"})
    expect_invalid(entry(".reg .b32 %r<4>; mov.b32 %r1, " + many(open) + "%r2;"),
                   "nested too deeply");
  expect_invalid(entry(".reg .b32 %r<4>; mov.b32 %r1, " + many("{") + "%r2" + many("}") + ";"),
                 "nested too deeply");
  expect_invalid(entry("", ".global .b32 g[2] = " + many("{") + "1" + many("}") + ";"),
                 "nested too deeply");
}

TEST(Load, RefusesTextThatIsNoPtx) {
  for (const char* text : {"", "this is no device code", ".target sm_80\n",
                           "\x7f"
                           "ELF",
                           ".version", ".version x"})
    EXPECT_EQ(load_error(text).failure, LoadFailure::kInvalidPtx) << text;
  EXPECT_EQ(load_error(".version 8.0\n.visible .entry k() { ret; }").failure,
            LoadFailure::kInvalidPtx);
}

TEST(Load, SurvivesEveryTruncation) {
  const std::string text = entry(
      ".reg .b32 %r<4>; .reg .pred %p; @%p mov.b32 %r1, {%h1, %h2}; L: bra L; call (r), f, (a);",
      ".pragma \"nounroll\"; .global .align 4 .b32 g[2] = {1, 0f3F800000};");
  for (std::size_t size = 0; size < text.size(); ++size)
    static_cast<void>(Program::load(text.substr(0, size)));
  for (std::size_t at = 0; at < text.size(); ++at) {
    std::string mutated = text;
    mutated[at] = "{}()[];,.%@!-+<>\"/*0"[at % 20];
    static_cast<void>(Program::load(mutated));
  }
}

TEST(Load, RefusesVersionsFromTheFuture) {
  EXPECT_EQ(load_error(".version 99.9\n.target sm_80\n").failure, LoadFailure::kUnsupportedVersion);
}

TEST(Load, RefusesVersionsThatNoNumberHolds) {
  for (const std::string version : {"99999999999.0", "7.99999999999", "346562560.346562560"})
    EXPECT_EQ(load_error(".version " + version + "\n.target sm_80\n").failure,
              LoadFailure::kUnsupportedVersion)
        << version;
}

TEST(Load, RefusesCallsOfUndefinedFunctions) {
  const std::string before = ".extern .func (.param .b32 r) elsewhere (.param .b32 a);";
  const LoadError error = load_error(
      entry("{ .param .b32 a0; .param .b32 r0; call.uni (r0), elsewhere, (a0); }", before));
  EXPECT_EQ(error.failure, LoadFailure::kUnresolvedSymbol);
  EXPECT_NE(error.log.find("elsewhere"), std::string::npos) << error.log;
}

TEST(Load, LeavesWhatIsNotLoweredToTheLaunch) {
  const auto refusal = [](const std::string& body) {
    return prepare_error(entry(".reg .b32 %r<4>; .reg .b64 %d; .reg .pred %p; " + body));
  };
  for (const std::string instruction :
       {"mma.sync.m8n8k4 %r0;", "tex.2d.v4.f32.f32 {%r0, %r1, %r2, %r3}, [t, {%r0, %r1}];",
        "add.nosuch.u32 %r0, %r1, %r2;", "add.u32 %r0, %r1;", "ld.global.u32 %r0, [%d], %d;",
        "selp.b32 %r0, %r1, %r2, %r3;", "atom.global.cas.b128 %r0, [%d], %r1, %r1;",
        "L: .callprototype (.param .b32 _) _ (.param .b32 _);  call (%r0), %d, (%r1), L;",
        "mov.u32 %r0, %nosuch;", "mov.u32 %r0, nosuch;"}) {
    const std::string message = refusal(instruction);
    EXPECT_NE(message.find("kernel k: line "), std::string::npos) << instruction << ": " << message;
  }
  EXPECT_EQ(refusal("mov.u32 %r0, 1;"), "");
}

/// Text at module scope that softgpu cannot run beside a kernel `good` that does without; `k` needs
/// it, by `use` in its body or by `directive` before it.
struct Unsupported {
  std::string before, directive, use, why;
};

TEST(Load, RefusesOnlyTheKernelsThatNeedWhatIsUnsupported) {
  const std::vector<Unsupported> cases = {
      {".global .texref t;", "", "mov.u64 %d, t;", ".texref variables"},
      {".global .samplerref s;", "", "mov.u64 %d, s;", ".samplerref variables"},
      {".global .align 8 .surfref s;\n.global .align 8 .u64 p[2] = {0, s};", "",
       "ld.global.u64 %d, [p];", ".surfref variables"},
      {".global .u32 v;\n.global .align 4 .u32 low[2] = {1, v};", "", "ld.global.u32 %r0, [low];",
       "a part of an address"},
      {".global .u32 v;\n.global .u8 odd[2] = {0xFF(v), 0xFF00(v)};", "",
       "ld.global.u8 %r0, [odd];", "a part of an address"},
      {"", ".explicitcluster .reqnctapercluster 2, 1, 1", "", "clusters of blocks"},
      {"", ".blocksareclusters", "", "the attribute .blocksareclusters"},
      {".func f() { .reg .v4 .b32 %v; ret; }", "", "call f;", "vector registers"},
      {".func f() { mma.sync.nosuch; ret; }", "", "call f;", "mma.sync.nosuch"},
      {".func f() { mma.sync.nosuch; ret; }\n.global .align 8 .u64 p[1] = {f};", "",
       "ld.global.u64 %d, [p]; { q: .callprototype ()_ (); call %d, q; }", "mma.sync.nosuch"},
      {".func f(.reg .b32 %x) { ret; }", "", "call f, (%r0);", "parameter"},
      {".extern .func g();\n.func f(.param .u64 .ptr .global .align 1 x) { ret; }", "",
       "mov.u32 %r0, %nosuch;", "%nosuch"},
  };
  for (const Unsupported& c : cases) {
    Loaded module(kHeader + c.before + "\n.visible .entry k() " + c.directive +
                  "\n{ .reg .b32 %r<4>; .reg .b64 %d; " + c.use +
                  "\nret; }\n.visible .entry good(.param .u64 out) { .reg .b64 %d; ld.param.u64 "
                  "%d, [out]; st.global.u32 [%d], 9; ret; }\n");
    ASSERT_TRUE(module.ok()) << c.why;
    const Status status = module.program().prepare(static_cast<std::size_t>(module.find("k")));
    ASSERT_FALSE(status) << c.why;
    EXPECT_EQ(status.error().code, ErrorCode::kUnsupported);
    EXPECT_NE(status.error().message.find("kernel k: "), std::string::npos);
    EXPECT_NE(status.error().message.find("line "), std::string::npos) << status.error().message;
    EXPECT_NE(status.error().message.find(c.why), std::string::npos) << status.error().message;
    int out = 0;
    EXPECT_EQ(module.run("good", {}, {}, &out).outcome, LaunchOutcome::kOk) << c.why;
    EXPECT_EQ(out, 9);
  }
}

TEST(Load, HidesVariablesWhoseValueIsUnsupported) {
  Loaded module(kHeader +
                ".visible .global .align 4 .u32 v;\n.visible .global .align 4 .u32 low = v;\n");
  ASSERT_TRUE(module.ok());
  ASSERT_EQ(module.program().globals().size(), 1u);
  EXPECT_EQ(module.program().globals()[0].name, "v");
}

TEST(Load, ReportsParametersAndMemoryOfKernels) {
  Loaded module(kHeader +
                ".visible .entry k(.param .u8 a, .param .align 8 .b8 b[12], .param .u64 .ptr "
                ".global .align 16 c, .param .f32 d)\n"
                ".maxntid 128, 2, 1\n.minnctapersm 2\n{\n.shared .align 16 .b8 s[100]; .local "
                ".align 8 .b8 depot[24];\nret;\n}\n");
  const KernelInfo& k = module.program().kernels().at(0);
  ASSERT_EQ(k.params.size(), 4u);
  EXPECT_EQ(k.params[0].offset_bytes, 0u);
  EXPECT_EQ(k.params[1].offset_bytes, 8u);
  EXPECT_EQ(k.params[1].size_bytes, 12u);
  EXPECT_EQ(k.params[2].offset_bytes, 24u);
  EXPECT_EQ(k.params[3].offset_bytes, 32u);
  EXPECT_EQ(k.param_bytes, 36u);
  EXPECT_EQ(k.static_shared_bytes, 100u);
  EXPECT_EQ(k.local_bytes, 24u);
  EXPECT_EQ(k.max_threads_per_block, 256u);
  EXPECT_EQ(k.ptx_version, 80);
  EXPECT_EQ(k.target_sm, 90);
}

TEST(Load, InitialisesGlobals) {
  Loaded module(kHeader + R"(
.visible .global .align 4 .u32 answer = 42;
.visible .global .align 4 .f32 floats[3] = {0f3F800000, 2.5, 0f00000000};
.visible .global .align 8 .f64 one = 0d3FF0000000000000;
.global .align 1 .b8 text[6] = {104, 101, 108, 108, 111, 0};
.visible .const .align 2 .s16 table[2][2] = {{1, -1}, {2, -2}};
.visible .global .align 8 .u64 pointers[3] = {generic(answer), 0, generic(floats)+4};
.visible .global .align 16 .b8 zeros[64];
.visible .entry k(.param .u64 out) {
  .reg .b64 %d<4>; .reg .b32 %r<4>;
  ld.param.u64 %d0, [out];
  ld.global.u64 %d1, [pointers+16];
  ld.u32 %r0, [%d1];
  st.global.u32 [%d0], %r0;
  ld.const.s16 %r1, [table+6];
  st.global.u32 [%d0+4], %r1;
  mov.u64 %d2, text;
  ld.global.u8 %r2, [%d2+1];
  st.global.u32 [%d0+8], %r2;
  ret;
})");
  ASSERT_TRUE(module.ok());
  int out[3] = {};
  ASSERT_EQ(module.run("k", {}, {}, &out[0]).outcome, LaunchOutcome::kOk);
  EXPECT_EQ(out[0], 0x40200000);
  EXPECT_EQ(out[1], -2);
  EXPECT_EQ(out[2], 'e');
  const auto& globals = module.program().globals();
  ASSERT_EQ(globals.size(), 7u);
  EXPECT_TRUE(globals[0].is_visible);
  EXPECT_FALSE(globals[3].is_visible);
  EXPECT_TRUE(globals[4].is_const);
  EXPECT_EQ(globals[5].relocations.size(), 2u);
  EXPECT_EQ(globals[6].align_bytes, 16u);
}

TEST(Load, TakesDirectivesWrittenWithoutSpaces) {
  Loaded module(
      entry("{.reg.b32 x<2>; .reg .b64 %d;.local.align 4 .b8 unused[4]; mov.b32 x1,7; "
            "ld.param.u64 %d,[out];st.global.u32[%d],x1;}"));
  ASSERT_TRUE(module.ok());
  int out = 0;
  ASSERT_EQ(module.run("k", {}, {}, &out).outcome, LaunchOutcome::kOk);
  EXPECT_EQ(out, 7);
}

TEST(Load, KeepsLabelsOfInnerScopesApart) {
  Loaded module(entry(R"(
.reg .b64 %d; .reg .b32 %r<2>; ld.param.u64 %d, [out]; mov.u32 %r0, 0;
{ .reg .pred p; LOOP: add.u32 %r0, %r0, 1; setp.lt.u32 p, %r0, 5; @p bra LOOP; }
{ .reg .pred p; LOOP: add.u32 %r0, %r0, 10; setp.lt.u32 p, %r0, 50; @p bra LOOP; bra DONE; mov.u32 %r0, 0; DONE: }
st.global.u32 [%d], %r0;)"));
  ASSERT_TRUE(module.ok());
  int out = 0;
  ASSERT_EQ(module.run("k", {}, {}, &out).outcome, LaunchOutcome::kOk);
  EXPECT_EQ(out, 55);
}

}  // namespace
}  // namespace sluice::softgpu::test
