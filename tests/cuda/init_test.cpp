// Start-up, versions, error names, entry points.
#include "tests/cuda/fixture.h"

#include <cstring>

namespace sluice::test {

TEST(Init, ReportsADriverVersionOfAtLeastTwelve) {
  ASSERT_OK(cuInit(0));
  int version = 0;
  ASSERT_OK(cuDriverGetVersion(&version));
  EXPECT_GE(version, 12000);
}

TEST(Init, RefusesFlagsThatDoNotExist) {
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuInit(4));
}

TEST(Init, RefusesANullVersionPointer) {
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuDriverGetVersion(nullptr));
}

TEST(Init, NamesAndDescribesErrors) {
  const char* text = nullptr;
  ASSERT_OK(cuGetErrorName(CUDA_ERROR_OUT_OF_MEMORY, &text));
  EXPECT_STREQ("CUDA_ERROR_OUT_OF_MEMORY", text);
  ASSERT_OK(cuGetErrorString(CUDA_ERROR_OUT_OF_MEMORY, &text));
  EXPECT_GT(std::strlen(text), 0u);
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuGetErrorName(no_such<CUresult>(123456), &text));
  EXPECT_EQ(nullptr, text);
}

TEST(Init, RefusesEveryPrivateExportTable) {
  ASSERT_OK(cuInit(0));
  CUuuid id{};
  const void* table = &id;
  EXPECT_NE(CUDA_SUCCESS, cuGetExportTable(&table, &id));
  EXPECT_EQ(nullptr, table);
}

TEST(Init, FindsEntryPointsByNameAndVersion) {
  ASSERT_OK(cuInit(0));
  void* old_form = nullptr;
  void* new_form = nullptr;
  CUdriverProcAddressQueryResult status{};
  ASSERT_OK(cuGetProcAddress("cuMemAlloc", &new_form, 12000, 0, &status));
  EXPECT_EQ(CU_GET_PROC_ADDRESS_SUCCESS, status);
  EXPECT_NE(nullptr, new_form);
  ASSERT_OK(cuGetProcAddress("cuStreamSynchronize", &old_form, 12000, CU_GET_PROC_ADDRESS_DEFAULT,
                             nullptr));
  ASSERT_OK(cuGetProcAddress("cuStreamSynchronize", &new_form, 12000,
                             CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, nullptr));
  EXPECT_NE(old_form, new_form) << "the per-thread form is the same function";
}

}  // namespace sluice::test
