// If these fail, a program gets the wrong kernel of a fatbin, or a bad file takes the process down.
#include "tests/cuda/fixture.h"
#include "tests/unit/fatbin_builder.h"

#include <cstdio>
#include <fstream>

namespace sluice::test {
namespace {

/// PTX whose one kernel says which architecture it is for.
std::string ptx_for(int arch) {
  return ".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry for_" +
         std::to_string(arch) + "() { ret; }\n";
}

class ImageTest : public CudaTest {
 protected:
  CUresult load(const std::vector<std::byte>& image) {
    return cuModuleLoadData(&module_, image.data());
  }
  bool has(const char* name) {
    CUfunction f = nullptr;
    return cuModuleGetFunction(&f, module_, name) == CUDA_SUCCESS;
  }
  CUmodule module_ = nullptr;
};

TEST_F(ImageTest, TheNewestPtxThatTheDeviceCanTakeIsChosen) {
  FatbinBuilder builder;
  builder.add(
      "\x7f"
      "ELF",
      {.kind = 2, .arch = 121});
  for (const int arch : {75, 90, 80, 300})
    builder.add(ptx_for(arch), {.arch = static_cast<std::uint32_t>(arch)});
  ASSERT_OK(load(builder.build()));
  EXPECT_TRUE(has("for_90"));
  EXPECT_FALSE(has("for_75"));
}

TEST_F(ImageTest, CodeForOneOtherArchitectureAloneIsPassedOver) {
  FatbinBuilder builder;
  builder.add(ptx_for(75), {.arch = 75}).add(ptx_for(90), {.arch = 90, .more_flags = 0x100000});
  ASSERT_OK(load(builder.build()));
  EXPECT_TRUE(has("for_75"));
}

TEST_F(ImageTest, AWrapperLeadsToItsFatbin) {
  const auto image =
      FatbinBuilder().add(ptx_for(80), {.arch = 80, .codec = FatbinBuilder::Codec::kLz4}).build();
  const struct {
    std::uint32_t magic = 0x466243b1, version = 1;
    const void* data;
    const void* more = nullptr;
  } wrapper{.data = image.data()};
  ASSERT_OK(cuModuleLoadData(&module_, &wrapper));
  EXPECT_TRUE(has("for_80"));
}

TEST_F(ImageTest, MachineCodeAloneIsNoBinaryForThisGpu) {
  EXPECT_CU(CUDA_ERROR_NO_BINARY_FOR_GPU, load(FatbinBuilder()
                                                   .add("\x7f"
                                                        "ELF",
                                                        {.kind = 2, .arch = 121})
                                                   .build()));
  EXPECT_CU(CUDA_ERROR_NO_BINARY_FOR_GPU,
            load(FatbinBuilder().add(ptx_for(300), {.arch = 300}).build()));
  EXPECT_CU(CUDA_ERROR_NO_BINARY_FOR_GPU, cuModuleLoadData(&module_,
                                                           "\x7f"
                                                           "ELF\x02\x01\x01"));
}

TEST_F(ImageTest, BytesThatAreNothingAreAnInvalidImage) {
  EXPECT_CU(CUDA_ERROR_INVALID_IMAGE, cuModuleLoadData(&module_, "\x01\x02\x03\x04"));
  EXPECT_CU(CUDA_ERROR_INVALID_IMAGE, cuModuleLoadData(&module_, ""));
}

TEST_F(ImageTest, AFileShorterThanItSaysIsAnInvalidImage) {
  const auto image = FatbinBuilder().add(ptx_for(80), {.arch = 80}).build();
  const std::string path = ::testing::TempDir() + "softgpu_image_test_" +
                           std::to_string(::testing::UnitTest::GetInstance()->random_seed());
  for (const std::size_t bytes :
       {std::size_t{3}, std::size_t{12}, image.size() / 2, image.size() - 1}) {
    std::ofstream(path, std::ios::binary | std::ios::trunc)
        .write(reinterpret_cast<const char*>(image.data()), static_cast<std::streamsize>(bytes));
    const CUresult result = cuModuleLoad(&module_, path.c_str());
    EXPECT_TRUE(result == CUDA_ERROR_INVALID_IMAGE || result == CUDA_ERROR_INVALID_PTX)
        << bytes << " bytes: " << result_name(result);
  }
  std::ofstream(path, std::ios::binary | std::ios::trunc)
      .write(reinterpret_cast<const char*>(image.data()),
             static_cast<std::streamsize>(image.size()));
  EXPECT_OK(cuModuleLoad(&module_, path.c_str()));
  std::remove(path.c_str());
}

}  // namespace
}  // namespace sluice::test
