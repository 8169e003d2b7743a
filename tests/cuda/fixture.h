// Shared by the conformance bodies: every test of this folder runs on softgpu directly and through
// the shim on every transport; a difference between the targets is by definition a bug of the shim
// or the server.
#pragma once

#include <cuda.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace sluice::test {

inline std::string result_name(CUresult result) {
  const char* name = nullptr;
  if (cuGetErrorName(result, &name) != CUDA_SUCCESS || name == nullptr)
    return std::to_string(result);
  return name;
}

/// A value that no enumerator of E has; read at run time, so that the compiler does not object.
template <class E>
E no_such(int value) {
  volatile int hidden = value;
  return static_cast<E>(hidden);
}

#define EXPECT_CU(expected, call) \
  EXPECT_EQ(::sluice::test::result_name(expected), ::sluice::test::result_name(call)) << #call
#define ASSERT_CU(expected, call) \
  ASSERT_EQ(::sluice::test::result_name(expected), ::sluice::test::result_name(call)) << #call
#define EXPECT_OK(call) EXPECT_CU(CUDA_SUCCESS, call)
#define ASSERT_OK(call) ASSERT_CU(CUDA_SUCCESS, call)

// Kernels used by several rows.
inline constexpr const char* kPtx = R"PTX(
.version 7.0
.target sm_75
.address_size 64
.visible .global .align 4 .u32 counter = 7;
.visible .const .align 4 .b32 table[4] = {1, 2, 4, 8};
.visible .entry add_one(.param .u64 pdata, .param .u32 pn)
{
    .reg .pred %p;
    .reg .b32 %r<6>;
    .reg .b64 %a, %off;
    ld.param.u64 %a, [pdata];
    ld.param.u32 %r0, [pn];
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ntid.x;
    mov.u32 %r3, %tid.x;
    mad.lo.s32 %r4, %r1, %r2, %r3;
    setp.ge.u32 %p, %r4, %r0;
    @%p bra done;
    mul.wide.u32 %off, %r4, 4;
    add.s64 %a, %a, %off;
    ld.global.u32 %r5, [%a];
    add.u32 %r5, %r5, 1;
    st.global.u32 [%a], %r5;
done:
    ret;
}
.visible .entry set_value(.param .u64 pdata, .param .u32 pvalue)
{
    .reg .b32 %r0;
    .reg .b64 %a;
    ld.param.u64 %a, [pdata];
    ld.param.u32 %r0, [pvalue];
    st.global.u32 [%a], %r0;
    ret;
}
.visible .entry slow_set(.param .u64 pdata, .param .u32 pvalue, .param .u32 protations)
{
    .reg .pred %p;
    .reg .b32 %r<4>;
    .reg .b64 %a;
    ld.param.u64 %a, [pdata];
    ld.param.u32 %r0, [pvalue];
    ld.param.u32 %r1, [protations];
    mov.u32 %r2, %r0;
loop:
    st.volatile.global.u32 [%a], %r2;
    mul.lo.u32 %r2, %r2, 1664525;
    add.u32 %r2, %r2, 1013904223;
    sub.u32 %r1, %r1, 1;
    setp.ne.u32 %p, %r1, 0;
    @%p bra loop;
    st.volatile.global.u32 [%a], %r0;
    ret;
}
.visible .entry bump_counter()
{
    .reg .b32 %r;
    ld.global.u32 %r, [counter];
    add.u32 %r, %r, 1;
    st.global.u32 [counter], %r;
    ret;
}
.visible .entry wild_store(.param .u64 pdata)
{
    .reg .b64 %a;
    .reg .b32 %r;
    ld.param.u64 %a, [pdata];
    mov.u32 %r, 1;
    st.global.u32 [%a], %r;
    ret;
}
.visible .entry call_address(.param .u64 address)
{
    .reg .b64 %d;
    ld.param.u64 %d, [address];
    { any: .callprototype ()_ (); call %d, any; }
    ret;
}
)PTX";

/// A fresh context of its own on device 0, so that a sticky error of one test cannot reach the
/// next.
class CudaTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK(cuInit(0));
    ASSERT_OK(cuDeviceGet(&device_, 0));
    ASSERT_OK(cuCtxCreate(&context_, nullptr, 0, device_));
  }
  void TearDown() override {
    if (context_ != nullptr) cuCtxDestroy(context_);
  }

  CUdevice device_ = 0;
  CUcontext context_ = nullptr;
};

/// CudaTest with the kernels above loaded.
class KernelTest : public CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (HasFatalFailure()) return;
    ASSERT_OK(cuModuleLoadData(&module_, kPtx));
  }

  CUfunction function(const char* name) {
    CUfunction f = nullptr;
    EXPECT_OK(cuModuleGetFunction(&f, module_, name));
    return f;
  }
  CUdeviceptr words(std::size_t count, unsigned value = 0) {
    CUdeviceptr p = 0;
    EXPECT_OK(cuMemAlloc(&p, count * 4));
    EXPECT_OK(cuMemsetD32(p, value, count));
    return p;
  }
  unsigned read_word(CUdeviceptr p) {
    unsigned value = 0;
    EXPECT_OK(cuMemcpyDtoH(&value, p, 4));
    return value;
  }
  CUresult launch(const char* name, std::vector<void*> params, unsigned grid = 1,
                  unsigned block = 1, CUstream stream = nullptr) {
    return cuLaunchKernel(function(name), grid, 1, 1, block, 1, 1, 0, stream, params.data(),
                          nullptr);
  }

  CUmodule module_ = nullptr;
};

}  // namespace sluice::test
