// Modules: loading, finding, unloading, and errors that belong to the call.
#include "tests/cuda/fixture.h"

#include <array>
#include <atomic>
#include <thread>
#include <vector>

namespace sluice::test {

class ModuleTest : public KernelTest {};

TEST_F(ModuleTest, GlobalsHaveTheirInitialValuesAndKeepChanges) {
  CUdeviceptr counter = 0;
  std::size_t bytes = 0;
  ASSERT_OK(cuModuleGetGlobal(&counter, &bytes, module_, "counter"));
  EXPECT_EQ(4u, bytes);
  EXPECT_EQ(7u, read_word(counter));
  ASSERT_OK(launch("bump_counter", {}));
  ASSERT_OK(launch("bump_counter", {}));
  EXPECT_EQ(9u, read_word(counter));
  CUdeviceptr table = 0;
  ASSERT_OK(cuModuleGetGlobal(&table, &bytes, module_, "table"));
  EXPECT_EQ(16u, bytes);
  EXPECT_EQ(8u, read_word(table + 12));
}

TEST_F(ModuleTest, EveryLoadHasItsOwnGlobals) {
  CUmodule second = nullptr;
  CUdeviceptr a = 0;
  CUdeviceptr b = 0;
  ASSERT_OK(cuModuleLoadData(&second, kPtx));
  ASSERT_OK(cuModuleGetGlobal(&a, nullptr, module_, "counter"));
  ASSERT_OK(cuModuleGetGlobal(&b, nullptr, second, "counter"));
  EXPECT_NE(a, b);
  ASSERT_OK(launch("bump_counter", {}));
  EXPECT_EQ(8u, read_word(a));
  EXPECT_EQ(7u, read_word(b));
  EXPECT_OK(cuModuleUnload(second));
}

TEST_F(ModuleTest, ThreadsThatAskForOneFunctionAtOnceGetTheSame) {
  // Broken: the list of what was given out is written by two threads at once.
  for (int round = 0; round < 20; ++round) {
    CUmodule fresh = nullptr;
    ASSERT_OK(cuModuleLoadData(&fresh, kPtx));
    std::atomic<int> ready{0};
    std::array<CUfunction, 4> found{};
    std::vector<std::thread> threads;
    for (CUfunction& mine : found)
      threads.emplace_back([&] {
        EXPECT_OK(cuCtxSetCurrent(context_));
        ++ready;
        while (ready < 4) std::this_thread::yield();
        EXPECT_OK(cuModuleGetFunction(&mine, fresh, "add_one"));
      });
    for (auto& thread : threads) thread.join();
    for (CUfunction each : found) EXPECT_EQ(found[0], each);
    EXPECT_OK(cuModuleUnload(fresh));
  }
}

TEST_F(ModuleTest, UnknownNamesAreNotFound) {
  CUfunction f = nullptr;
  CUdeviceptr p = 0;
  EXPECT_CU(CUDA_ERROR_NOT_FOUND, cuModuleGetFunction(&f, module_, "no_such_kernel"));
  EXPECT_CU(CUDA_ERROR_NOT_FOUND, cuModuleGetGlobal(&p, nullptr, module_, "no_such_global"));
  EXPECT_CU(CUDA_ERROR_NOT_FOUND, cuModuleGetFunction(&f, module_, "counter"));
}

TEST_F(ModuleTest, BadPtxIsExplainedInTheLogOfTheCall) {
  char log[2048] = {};
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void* values[] = {log, reinterpret_cast<void*>(sizeof log)};
  CUmodule m = nullptr;
  EXPECT_CU(
      CUDA_ERROR_INVALID_PTX,
      cuModuleLoadDataEx(
          &m,
          ".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry k() { frobnicate; }\n", 2,
          options, values));
  EXPECT_NE('\0', log[0]);
  EXPECT_OK(cuCtxSynchronize()) << "a failed load is not sticky";
}

TEST_F(ModuleTest, TellsAFunctionsParametersAndAttributes) {
  CUfunction f = function("add_one");
  std::size_t offset = 99;
  std::size_t size = 99;
  ASSERT_OK(cuFuncGetParamInfo(f, 0, &offset, &size));
  EXPECT_EQ(0u, offset);
  EXPECT_EQ(8u, size);
  ASSERT_OK(cuFuncGetParamInfo(f, 1, &offset, &size));
  EXPECT_EQ(8u, offset);
  EXPECT_EQ(4u, size);
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuFuncGetParamInfo(f, 2, &offset, &size));
  int threads = 0;
  ASSERT_OK(cuFuncGetAttribute(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, f));
  EXPECT_GE(threads, 512);
  const char* name = nullptr;
  ASSERT_OK(cuFuncGetName(&name, f));
  EXPECT_STREQ("add_one", name);
}

TEST_F(ModuleTest, LibrariesLoadWithoutAContextAndShareKernels) {
  ASSERT_OK(cuCtxSetCurrent(nullptr));
  CUlibrary library = nullptr;
  CUkernel kernel = nullptr;
  ASSERT_OK(cuLibraryLoadData(&library, kPtx, nullptr, nullptr, 0, nullptr, nullptr, 0));
  ASSERT_OK(cuLibraryGetKernel(&kernel, library, "set_value"));
  EXPECT_CU(CUDA_ERROR_NOT_FOUND, cuLibraryGetKernel(&kernel, library, "no_such_kernel"));
  ASSERT_OK(cuCtxSetCurrent(context_));
  CUdeviceptr p = words(1);
  unsigned value = 31;
  void* params[] = {&p, &value};
  ASSERT_OK(cuLaunchKernel(reinterpret_cast<CUfunction>(kernel), 1, 1, 1, 1, 1, 1, 0, nullptr,
                           params, nullptr));
  EXPECT_EQ(31u, read_word(p));
  CUfunction f = nullptr;
  value = 32;
  ASSERT_OK(cuKernelGetFunction(&f, kernel));
  ASSERT_OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, nullptr, params, nullptr));
  EXPECT_EQ(32u, read_word(p));
  CUdeviceptr counter = 0;
  std::size_t bytes = 0;
  ASSERT_OK(cuLibraryGetGlobal(&counter, &bytes, library, "counter"));
  EXPECT_EQ(7u, read_word(counter));
  EXPECT_OK(cuLibraryUnload(library));
}

TEST_F(ModuleTest, UnloadWaitsForRunningKernels) {
  CUmodule second = nullptr;
  CUfunction f = nullptr;
  ASSERT_OK(cuModuleLoadData(&second, kPtx));
  ASSERT_OK(cuModuleGetFunction(&f, second, "slow_set"));
  CUdeviceptr p = words(1);
  unsigned value = 77;
  unsigned rotations = 300000;
  void* params[] = {&p, &value, &rotations};
  ASSERT_OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, nullptr, params, nullptr));
  ASSERT_OK(cuModuleUnload(second));
  EXPECT_EQ(77u, read_word(p));
}

}  // namespace sluice::test
