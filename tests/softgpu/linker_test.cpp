// If these fail, programs that link PTX at run time (Numba, NVRTC users) get no module, or one that
// lacks an input.
#include "tests/cuda/fixture.h"

#include <cstring>

namespace sluice::test {
namespace {

constexpr const char* kCaller = R"PTX(
.version 7.0
.target sm_75
.address_size 64
.extern .func (.param .b32 out) twice(.param .b32 in);
.visible .entry call_twice(.param .u64 pdata)
{
    .reg .b64 %a;
    .reg .b32 %r<3>;
    .param .b32 result;
    .param .b32 argument;
    ld.param.u64 %a, [pdata];
    ld.global.u32 %r0, [%a];
    st.param.b32 [argument], %r0;
    call (result), twice, (argument);
    ld.param.b32 %r1, [result];
    st.global.u32 [%a], %r1;
    ret;
}
)PTX";
constexpr const char* kCallee = R"PTX(
.version 7.5
.target sm_75
.address_size 64
.visible .func (.param .b32 out) twice(.param .b32 in)
{
    .reg .b32 %r<2>;
    ld.param.b32 %r0, [in];
    add.u32 %r1, %r0, %r0;
    st.param.b32 [out], %r1;
    ret;
}
)PTX";
constexpr const char* kOther = R"PTX(
.version 7.5
.target sm_75
.address_size 64
.visible .entry set_nine(.param .u64 pdata)
{
    .reg .b64 %a;
    .reg .b32 %r;
    ld.param.u64 %a, [pdata];
    mov.u32 %r, 9;
    st.global.u32 [%a], %r;
    ret;
}
)PTX";

class LinkerTest : public KernelTest {
 protected:
  void SetUp() override {
    KernelTest::SetUp();
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void* values[] = {log_, reinterpret_cast<void*>(sizeof log_)};
    ASSERT_OK(cuLinkCreate(2, options, values, &link_));
  }
  void TearDown() override {
    EXPECT_OK(cuLinkDestroy(link_));
    EXPECT_CU(CUDA_ERROR_INVALID_HANDLE, cuLinkDestroy(link_));
    KernelTest::TearDown();
  }
  CUresult add(const char* ptx) {
    return cuLinkAddData(link_, CU_JIT_INPUT_PTX, const_cast<char*>(ptx), std::strlen(ptx) + 1,
                         "test.ptx", 0, nullptr, nullptr);
  }

  CUlinkState link_ = nullptr;
  char log_[1024] = {};
};

TEST_F(LinkerTest, TheWholeHasEveryInputsKernels) {
  ASSERT_OK(add(kPtx));
  ASSERT_OK(add(kOther));
  void* image = nullptr;
  std::size_t bytes = 0;
  ASSERT_OK(cuLinkComplete(link_, &image, &bytes));
  EXPECT_GT(bytes, std::strlen(kPtx));
  CUmodule module = nullptr;
  ASSERT_OK(cuModuleLoadData(&module, image));
  CUfunction add_one = nullptr, set_nine = nullptr;
  ASSERT_OK(cuModuleGetFunction(&add_one, module, "add_one"));
  ASSERT_OK(cuModuleGetFunction(&set_nine, module, "set_nine"));
  CUdeviceptr p = words(1);
  void* params[] = {&p};
  ASSERT_OK(cuLaunchKernel(set_nine, 1, 1, 1, 1, 1, 1, 0, nullptr, params, nullptr));
  EXPECT_EQ(9u, read_word(p));
}

TEST_F(LinkerTest, AnInputMayCallWhatAnotherDefines) {
  ASSERT_OK(add(kCaller));
  ASSERT_OK(add(kCallee));
  void* image = nullptr;
  ASSERT_OK(cuLinkComplete(link_, &image, nullptr)) << log_;
  CUmodule module = nullptr;
  ASSERT_OK(cuModuleLoadData(&module, image));
  CUfunction f = nullptr;
  ASSERT_OK(cuModuleGetFunction(&f, module, "call_twice"));
  CUdeviceptr p = words(1, 21);
  void* params[] = {&p};
  ASSERT_OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, nullptr, params, nullptr));
  EXPECT_EQ(42u, read_word(p));
}

TEST_F(LinkerTest, WhatNobodyDefinesIsNotLinked) {
  ASSERT_OK(add(kCaller));
  void* image = nullptr;
  EXPECT_CU(CUDA_ERROR_INVALID_PTX, cuLinkComplete(link_, &image, nullptr));
  EXPECT_NE(nullptr, std::strstr(log_, "twice")) << log_;
}

TEST_F(LinkerTest, ABadInputIsNamedInTheLog) {
  EXPECT_CU(CUDA_ERROR_INVALID_PTX, add(".version 7.0\n.target sm_75\nnonsense;"));
  EXPECT_NE(nullptr, std::strstr(log_, "test.ptx")) << log_;
  void* image = nullptr;
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuLinkComplete(link_, &image, nullptr)) << "no input";
}

}  // namespace
}  // namespace sluice::test
