// If these fail, programs of nvcc find no kernels, or a damaged binary crashes whoever loads it.
#include "common/fatbin.h"

#include "tests/unit/fatbin_builder.h"

#include <gtest/gtest.h>

namespace sluice::test {
namespace {

using Codec = FatbinBuilder::Codec;

const std::string kPtxText(3000, 'p');

void overwrite(std::vector<std::byte>& image, std::size_t offset, std::uint64_t value,
               std::size_t bytes) {
  std::memcpy(image.data() + offset, &value, bytes);
}

TEST(Fatbin, EveryCodecGivesTheTextWithoutTheZeroesBehindIt) {
  for (const Codec codec : {Codec::kPlain, Codec::kZstd, Codec::kLz4}) {
    const auto image = FatbinBuilder().add(kPtxText, {.codec = codec}).build();
    const auto entries = fatbin_entries(image);
    ASSERT_TRUE(entries) << entries.error().message;
    ASSERT_EQ(1u, entries->size());
    const auto text = fatbin_text(entries->front());
    ASSERT_TRUE(text) << text.error().message;
    EXPECT_EQ(kPtxText, *text) << "codec " << static_cast<int>(codec);
  }
}

TEST(Fatbin, EntriesKeepOrderKindAndArchitecture) {
  const auto image =
      FatbinBuilder()
          .add(
              "\x7f"
              "ELF...",
              {.kind = 2, .arch = 90})
          .add(kPtxText, {.arch = 120, .codec = Codec::kZstd, .more_flags = 0x200000})
          .add("?", {.kind = 8, .arch = 75})
          .build();
  EXPECT_EQ(image.size(), fatbin_bytes(image.data()).value());
  const auto entries = fatbin_entries(image);
  ASSERT_TRUE(entries);
  ASSERT_EQ(3u, entries->size());
  EXPECT_EQ(FatbinEntry::Kind::kElf, (*entries)[0].kind);
  EXPECT_FALSE((*entries)[0].is_specific());
  EXPECT_EQ(FatbinEntry::Kind::kPtx, (*entries)[1].kind);
  EXPECT_EQ(120u, (*entries)[1].arch);
  EXPECT_TRUE((*entries)[1].is_specific());
  EXPECT_EQ(FatbinEntry::Kind::kOther, (*entries)[2].kind);
}

TEST(Fatbin, CutAtEveryLengthItIsRefusedOrShorter) {
  const auto image =
      FatbinBuilder().add(kPtxText, {.codec = Codec::kZstd}).add("second", {.arch = 80}).build();
  for (std::size_t bytes = 0; bytes < image.size(); ++bytes) {
    // A copy of exactly that size, so that a sanitizer sees a read behind it.
    const std::vector<std::byte> part(image.begin(),
                                      image.begin() + static_cast<std::ptrdiff_t>(bytes));
    EXPECT_FALSE(fatbin_entries(part)) << bytes << " of " << image.size() << " bytes";
  }
}

TEST(Fatbin, LengthsThatDoNotFitAreRefused) {
  const auto good = FatbinBuilder().add(kPtxText, {.codec = Codec::kLz4}).build();
  const struct {
    const char* what;
    std::size_t offset;
    std::uint64_t value;
    std::size_t bytes;
  } damages[] = {{"magic", 0, 0x12345678, 4},
                 {"header size", 6, 8, 2},
                 {"body size", 8, ~0ull, 8},
                 {"entry header", 16 + 4, 63, 4},
                 {"entry header", 16 + 4, ~0u, 4},
                 {"stored size", 16 + 8, ~0ull, 8},
                 {"stored size", 16 + 8, ~0ull - 64, 8},
                 {"compressed size", 16 + 16, ~0u, 4}};
  for (const auto& damage : damages) {
    auto image = good;
    overwrite(image, damage.offset, damage.value, damage.bytes);
    EXPECT_FALSE(fatbin_entries(image)) << damage.what;
  }
}

TEST(Fatbin, DamagedPayloadsAreErrors) {
  for (const Codec codec : {Codec::kZstd, Codec::kLz4}) {
    auto image = FatbinBuilder().add(kPtxText, {.codec = codec}).build();
    for (std::size_t i = 16 + 64; i < image.size(); ++i) image[i] ^= std::byte{0xff};
    const auto entries = fatbin_entries(image);
    ASSERT_TRUE(entries);
    EXPECT_FALSE(fatbin_text(entries->front())) << "codec " << static_cast<int>(codec);
    // A declared size that nobody has memory for.
    overwrite(image, 16 + 56, std::uint64_t{1} << 50, 8);
    EXPECT_FALSE(fatbin_text(fatbin_entries(image)->front()));
  }
}

}  // namespace
}  // namespace sluice::test
