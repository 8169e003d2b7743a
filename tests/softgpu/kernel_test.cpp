// What kernels of cooperating threads look like from the driver API: errors, limits, printed text,
// and contexts that end while a kernel does not.
#include "tests/cuda/fixture.h"

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

namespace sluice::test {
namespace {

constexpr const char* kCooperation = R"PTX(
.version 8.0
.target sm_75
.address_size 64
.extern .func (.param .b32 r) vprintf (.param .b64 f, .param .b64 a);
.extern .func (.param .b64 r) malloc (.param .b64 n);
.extern .func __assertfail (.param .b64 m, .param .b64 f, .param .b32 l, .param .b64 n, .param .b64 s);
.global .align 1 .b8 format[4] = {37, 117, 10, 0};
.global .align 1 .b8 word[2] = {120, 0};
.visible .entry deadlock() {
  .reg .b32 %r; .reg .pred %p;
  mov.u32 %r, %tid.x; setp.lt.u32 %p, %r, 32;
  @%p bra A; bar.sync 1, 64; bra B;
A: bar.sync 2, 64;
B: ret;
}
.visible .entry trapped() { trap; ret; }
.visible .entry failing() {
  .reg .b64 %a;
  mov.u64 %a, word; cvta.global.u64 %a, %a;
  { .param .b64 m; .param .b64 f; .param .b32 l; .param .b64 n; .param .b64 s; st.param.b64 [m], %a;
    st.param.b64 [f], %a; st.param.b32 [l], 7; st.param.b64 [n], %a; st.param.b64 [s], 1; call __assertfail, (m, f, l, n, s); }
  ret;
}
.visible .entry endless(.param .u64 out) {
  .reg .b64 %a; ld.param.u64 %a, [out];
  st.volatile.global.u32 [%a], 1;
L: bra L;
}
.visible .entry say(.param .u32 value) {
  .reg .b32 %r; .reg .b64 %a<3>; .local .align 8 .b8 args[8];
  ld.param.u32 %r, [value]; st.local.u32 [args], %r; mov.u64 %a0, format; cvta.global.u64 %a0, %a0;
  mov.u64 %a1, args; cvta.local.u64 %a1, %a1;
  { .param .b64 f; .param .b64 a; .param .b32 r; st.param.b64 [f], %a0; st.param.b64 [a], %a1; call (r), vprintf, (f, a); }
  ret;
}
.visible .entry allocate(.param .u64 out, .param .u64 bytes) {
  .reg .b64 %a<3>; ld.param.u64 %a0, [out]; ld.param.u64 %a1, [bytes];
  { .param .b64 n; .param .b64 r; st.param.b64 [n], %a1; call (r), malloc, (n); ld.param.b64 %a2, [r]; }
  st.global.u64 [%a0], %a2;
  ret;
}
.visible .entry misaligned(.param .u64 out) {
  .reg .b64 %a; .reg .b32 %r; ld.param.u64 %a, [out]; ld.global.u32 %r, [%a+1]; st.global.u32 [%a+1], %r;
  ret;
}
)PTX";

class KernelOfThreadsTest : public CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    ASSERT_OK(cuModuleLoadData(&module_, kCooperation));
  }
  CUresult launch(const char* name, std::vector<void*> params = {}, unsigned threads = 1) {
    CUfunction f = nullptr;
    EXPECT_OK(cuModuleGetFunction(&f, module_, name));
    return cuLaunchKernel(f, 1, 1, 1, threads, 1, 1, 0, nullptr, params.data(), nullptr);
  }
  /// The error is sticky, and a new context knows nothing of it.
  void expect_sticky(CUresult error) {
    EXPECT_CU(error, cuCtxSynchronize());
    EXPECT_CU(error, cuMemAlloc(&memory_, 16));
    cuCtxDestroy(context_);
    ASSERT_OK(cuCtxCreate(&context_, nullptr, 0, device_));
    EXPECT_OK(cuMemAlloc(&memory_, 16));
  }
  CUmodule module_ = nullptr;
  CUdeviceptr memory_ = 0;
};

TEST_F(KernelOfThreadsTest, ADeadlockedBarrierIsALaunchFailure) {
  ASSERT_OK(launch("deadlock", {}, 64));
  expect_sticky(CUDA_ERROR_LAUNCH_FAILED);
}

TEST_F(KernelOfThreadsTest, ATrapIsALaunchFailure) {
  ASSERT_OK(launch("trapped"));
  expect_sticky(CUDA_ERROR_LAUNCH_FAILED);
}

TEST_F(KernelOfThreadsTest, AnAssertionThatFailsSaysSoOnStderr) {
  testing::internal::CaptureStderr();
  ASSERT_OK(launch("failing"));
  expect_sticky(CUDA_ERROR_ASSERT);
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find("x:7: x: block: [0,0,0], thread: [0,0,0] Assertion `x` failed.\n"),
            std::string::npos)
      << text;
}

TEST_F(KernelOfThreadsTest, TextOfKernelsIsPrintedWhenTheHostSynchronises) {
  testing::internal::CaptureStdout();
  unsigned one = 1;
  unsigned two = 2;
  ASSERT_OK(launch("say", {&one}));
  ASSERT_OK(launch("say", {&two}));
  ASSERT_OK(cuCtxSynchronize());
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "1\n2\n");
}

TEST_F(KernelOfThreadsTest, ASinkHasTheTextBeforeTheLaunchIsFinished) {
  using Sink = void (*)(const char*, std::size_t, void*);
  auto* set =
      reinterpret_cast<void (*)(Sink, void*)>(dlsym(RTLD_DEFAULT, "softgpu_set_printf_sink"));
  ASSERT_NE(set, nullptr);
  std::string heard;
  set([](const char* data, std::size_t bytes,
         void* user) { static_cast<std::string*>(user)->append(data, bytes); },
      &heard);
  unsigned value = 41;
  CUevent event = nullptr;
  ASSERT_OK(cuEventCreate(&event, 0));
  ASSERT_OK(launch("say", {&value}));
  ASSERT_OK(cuEventRecord(event, nullptr));
  while (cuEventQuery(event) == CUDA_ERROR_NOT_READY) continue;  // no call that synchronises
  set(nullptr, nullptr);
  EXPECT_EQ(heard, "41\n");
}

TEST_F(KernelOfThreadsTest, TheHeapHasTheSizeOfItsLimit) {
  ASSERT_OK(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 1 << 20));
  CUdeviceptr out = 0;
  ASSERT_OK(cuMemAlloc(&out, 8));
  const auto allocate = [&](std::uint64_t bytes) {
    std::uint64_t address = 1;
    EXPECT_OK(launch("allocate", {&out, &bytes}));
    EXPECT_OK(cuMemcpyDtoH(&address, out, 8));
    return address;
  };
  EXPECT_NE(allocate(1 << 19), 0u);
  EXPECT_EQ(allocate(1 << 20), 0u);
}

TEST_F(KernelOfThreadsTest, AContextCanBeDestroyedWhileAKernelIsEndless) {
  ASSERT_OK(cuMemAlloc(&memory_, 4));
  ASSERT_OK(launch("endless", {&memory_}));
  ASSERT_OK(cuCtxDestroy(context_));
  ASSERT_OK(cuCtxCreate(&context_, nullptr, 0, device_));
  EXPECT_OK(cuMemAlloc(&memory_, 4));
  EXPECT_OK(cuCtxSynchronize());
}

TEST_F(KernelOfThreadsTest, AModuleCanBeUnloadedWhileItsKernelIsEndless) {
  ASSERT_OK(cuMemAlloc(&memory_, 4));
  ASSERT_OK(launch("endless", {&memory_}));
  EXPECT_OK(cuModuleUnload(module_));
}

TEST_F(KernelOfThreadsTest, AProcessCanEndWhileAKernelIsEndless) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(
      {
        CUdeviceptr memory = 0;
        if (cuMemAlloc(&memory, 4) != CUDA_SUCCESS || launch("endless", {&memory}) != CUDA_SUCCESS)
          std::exit(3);
        std::exit(0);
      },
      testing::ExitedWithCode(0), "");
}

TEST_F(KernelOfThreadsTest, ACooperativeGridThatDoesNotFitIsRefusedAtTheCall) {
  CUfunction f = nullptr;
  ASSERT_OK(cuModuleGetFunction(&f, module_, "trapped"));
  EXPECT_CU(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE,
            cuLaunchCooperativeKernel(f, 1u << 20, 1, 1, 32, 1, 1, 0, nullptr, nullptr));
  EXPECT_OK(cuCtxSynchronize());
}

TEST(StrictKernelTest, AMisalignedAccessIsItsOwnError) {
  setenv("SOFTGPU_STRICT", "1", 1);
  CUdevice device = 0;
  CUcontext context = nullptr;
  CUmodule module = nullptr;
  CUfunction f = nullptr;
  CUdeviceptr memory = 0;
  ASSERT_OK(cuInit(0));
  ASSERT_OK(cuDeviceGet(&device, 0));
  ASSERT_OK(cuCtxCreate(&context, nullptr, 0, device));
  ASSERT_OK(cuModuleLoadData(&module, kCooperation));
  ASSERT_OK(cuModuleGetFunction(&f, module, "misaligned"));
  ASSERT_OK(cuMemAlloc(&memory, 16));
  void* params[] = {&memory};
  EXPECT_OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, nullptr, params, nullptr));
  EXPECT_CU(CUDA_ERROR_MISALIGNED_ADDRESS, cuCtxSynchronize());
  unsetenv("SOFTGPU_STRICT");
  cuCtxDestroy(context);
}

}  // namespace
}  // namespace sluice::test
