// How long a module image is: too short an answer truncates a program's kernels, too long a one
// reads foreign memory.
#include "shim/image.h"

#include <elf.h>
#include <gtest/gtest.h>

#include <cstring>

namespace sluice::shim {
namespace {

struct Fatbin {
  std::uint32_t magic = 0xba55ed50;
  std::uint16_t version = 1;
  std::uint16_t header_bytes = 16;
  std::uint64_t body_bytes = 40;
  char body[40] = {};
};
struct Wrapper {
  std::uint32_t magic = 0x466243b1;
  std::uint32_t version = 1;
  const void* fatbin = nullptr;
  const void* more = nullptr;
};

TEST(ImageBytes, ATextEndsAtItsZero) {
  const auto bytes = image_bytes(".version 7.0\n");
  ASSERT_TRUE(bytes);
  EXPECT_EQ(13u, bytes->size());
  EXPECT_FALSE(image_bytes("")) << "an empty text is no image";
}

TEST(ImageBytes, AFatbinIsAsLongAsItsHeaderSays) {
  const Fatbin fatbin;
  const auto bytes = image_bytes(&fatbin);
  ASSERT_TRUE(bytes);
  EXPECT_EQ(56u, bytes->size());
  EXPECT_EQ(static_cast<const void*>(&fatbin), bytes->data());
}

TEST(ImageBytes, AWrapperLeadsToItsFatbin) {
  const Fatbin fatbin;
  for (const std::uint32_t version : {1u, 2u}) {
    const Wrapper wrapper{.version = version, .fatbin = &fatbin};
    const auto bytes = image_bytes(&wrapper);
    ASSERT_TRUE(bytes) << version;
    EXPECT_EQ(static_cast<const void*>(&fatbin), bytes->data());
    EXPECT_EQ(56u, bytes->size());
  }
}

TEST(ImageBytes, DamagedHeadersAreErrors) {
  Fatbin fatbin;
  fatbin.body_bytes = std::uint64_t{1} << 60;
  EXPECT_FALSE(image_bytes(&fatbin));
  EXPECT_FALSE(
      image_bytes(std::make_unique<Wrapper>(Wrapper{.version = 7, .fatbin = &fatbin}).get()));
  EXPECT_FALSE(image_bytes(std::make_unique<Wrapper>(Wrapper{}).get()));
}

TEST(ImageBytes, ACubinEndsWithTheLastThingItsHeadersMention) {
  struct {
    Elf64_Ehdr header{};
    char code[100] = {};
    Elf64_Shdr sections[3]{};
    char tail[64] = {};
  } cubin;
  std::memcpy(cubin.header.e_ident, ELFMAG, SELFMAG);
  cubin.header.e_ident[EI_CLASS] = ELFCLASS64;
  cubin.header.e_ehsize = sizeof cubin.header;
  cubin.header.e_shoff = offsetof(decltype(cubin), sections);
  cubin.header.e_shnum = 3;
  cubin.header.e_shentsize = sizeof(Elf64_Shdr);
  cubin.sections[1].sh_offset = offsetof(decltype(cubin), tail);
  cubin.sections[1].sh_size = 30;
  cubin.sections[2].sh_type = SHT_NOBITS;
  cubin.sections[2].sh_size = 1 << 20;
  auto bytes = image_bytes(&cubin);
  ASSERT_TRUE(bytes);
  EXPECT_EQ(offsetof(decltype(cubin), tail) + 30, bytes->size());
  cubin.sections[1].sh_size = ~std::uint64_t{0};
  EXPECT_FALSE(image_bytes(&cubin));
}

TEST(ImageBytes, AFileThatIsMissingIsNotFound) {
  const auto data = read_image_file("no-such-dir/no-such-file.ptx");
  ASSERT_FALSE(data);
  EXPECT_EQ(ErrorCode::kNotFound, data.error().code);
}

}  // namespace
}  // namespace sluice::shim
