// PTX comes from the application: any text is a module or an error with a line number.
#include "softgpu/ptx/parser.h"
#include "tests/fuzz/harness.h"

#include <cstdlib>
#include <string_view>

namespace ptx = sluice::softgpu::ptx;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  ptx::Module module;
  const auto wrong = ptx::parse_module({reinterpret_cast<const char*>(data), bytes}, &module);
  if (wrong) {
    if (wrong->text().empty()) std::abort();
    return 0;
  }
  for (const ptx::Function& function : module.functions) {
    ptx::Body body;
    static_cast<void>(ptx::parse_body(module, function, &body));
  }
  return 0;
}

std::optional<std::size_t> fuzz_length_offset() {
  return std::nullopt;
}

std::vector<std::vector<std::uint8_t>> fuzz_corpus() {
  constexpr std::string_view kTexts[] = {
      R"(.version 7.5
.target sm_75
.address_size 64
.global .align 4 .b8 table[16] = {1, 2, 0xff, 4};
.const .f32 factor = 0f3F800000;
.func (.param .b32 out) half(.param .b32 in)
{ .reg .b32 %r<3>; ld.param.u32 %r1, [in]; shr.u32 %r2, %r1, 1; st.param.b32 [out], %r2; ret; }
.visible .entry scale(.param .u64 data, .param .u32 count)
.maxntid 256, 1, 1
{
  .reg .pred %p<2>;
  .reg .b32 %r<8>;
  .reg .f32 %f<4>;
  .reg .b64 %rd<5>;
  .shared .align 16 .b8 tile[1024];
  ld.param.u64 %rd1, [data];
  mov.u32 %r1, %tid.x;
  mad.lo.s32 %r2, %r1, 4, 3;
  setp.ge.u32 %p1, %r1, 64;
  @%p1 bra DONE;
  cvta.to.global.u64 %rd2, %rd1;
  ld.global.v2.f32 {%f1, %f2}, [%rd2+8];
  fma.rn.f32 %f3, %f1, 0f40000000, %f2;
  bar.sync 0;
  shfl.sync.down.b32 %r3|%p1, %r1, 1, 31, -1;
  atom.global.add.f32 %f3, [%rd2], %f1;
DONE:
  ret;
}
)",
      R"(.version 3.2
.target sm_30
.address_size 64
.visible .entry empty() { ret; }
)",
  };
  std::vector<std::vector<std::uint8_t>> corpus;
  for (const std::string_view text : kTexts) corpus.emplace_back(text.begin(), text.end());
  return corpus;
}
