#include "common/fatbin.h"

#include "common/format.h"

#include <lz4.h>
#include <zstd.h>

#include <cstring>

namespace sluice {
namespace {

constexpr std::uint64_t kFlagLz4 = 0x2000;
constexpr std::uint64_t kFlagZstd = 0x8000;
constexpr std::uint64_t kTextBytesMax = std::uint64_t{1} << 30;
constexpr std::uint64_t kBodyBytesMax = std::uint64_t{1} << 40;
constexpr std::size_t kHeaderBytes = 16;
constexpr std::size_t kEntryBytesMin = 64;

template <class T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

tl::unexpected<Error> malformed(const char* why) {
  return fail(ErrorCode::kInvalidArgument, format("malformed fatbin: {}", why));
}

FatbinEntry::Kind kind_of(std::uint16_t kind) {
  return kind == 1   ? FatbinEntry::Kind::kPtx
         : kind == 2 ? FatbinEntry::Kind::kElf
                     : FatbinEntry::Kind::kOther;
}

}  // namespace

Result<std::size_t> fatbin_bytes(const void* fatbin) {
  const auto* p = static_cast<const std::byte*>(fatbin);
  if (load<std::uint32_t>(p) != kFatbinMagic) return malformed("wrong magic");
  const std::size_t header_bytes = load<std::uint16_t>(p + 6);
  const auto body_bytes = load<std::uint64_t>(p + 8);
  if (header_bytes < kHeaderBytes || body_bytes > kBodyBytesMax)
    return malformed("impossible length");
  return header_bytes + body_bytes;
}

Result<std::vector<FatbinEntry>> fatbin_entries(std::span<const std::byte> fatbin) {
  if (fatbin.size() < kHeaderBytes) return malformed("shorter than its header");
  SLUICE_TRY(const std::size_t total_bytes, fatbin_bytes(fatbin.data()));
  if (total_bytes > fatbin.size()) return malformed("longer than its memory");
  const std::size_t header_bytes = load<std::uint16_t>(fatbin.data() + 6);
  auto rest = fatbin.subspan(header_bytes, total_bytes - header_bytes);

  std::vector<FatbinEntry> entries;
  while (rest.size() >= kEntryBytesMin) {
    const std::byte* p = rest.data();
    const auto entry_header_bytes = load<std::uint32_t>(p + 4);
    const auto stored_bytes = load<std::uint64_t>(p + 8);
    const auto compressed_bytes = load<std::uint32_t>(p + 16);
    if (entry_header_bytes < kEntryBytesMin || entry_header_bytes > rest.size() ||
        stored_bytes > rest.size() - entry_header_bytes)
      return malformed("an entry is longer than the container");
    FatbinEntry entry;
    entry.kind = kind_of(load<std::uint16_t>(p));
    entry.arch = load<std::uint32_t>(p + 28);
    entry.flags = load<std::uint64_t>(p + 40);
    entry.raw_bytes = load<std::uint64_t>(p + 56);
    const bool is_compressed = (entry.flags & (kFlagLz4 | kFlagZstd)) != 0;
    // Compressed data is padded; LZ4 in particular must not see the padding.
    std::uint64_t used_bytes = stored_bytes;
    if (is_compressed && compressed_bytes != 0) used_bytes = compressed_bytes;
    if (used_bytes > stored_bytes) return malformed("an entry's data is longer than its place");
    entry.stored = rest.subspan(entry_header_bytes, used_bytes);
    entries.push_back(entry);
    rest = rest.subspan(entry_header_bytes + stored_bytes);
  }
  return entries;
}

namespace {

Result<std::string> image_of(const FatbinEntry& entry) {
  const auto* data = reinterpret_cast<const char*>(entry.stored.data());
  const bool is_compressed = (entry.flags & (kFlagLz4 | kFlagZstd)) != 0;
  if (entry.stored.size() > kTextBytesMax || entry.raw_bytes > kTextBytesMax)
    return malformed("an image is too large");
  if (!is_compressed) return std::string(data, entry.stored.size());

  std::string text(entry.raw_bytes, '\0');
  if ((entry.flags & kFlagZstd) != 0) {
    const std::size_t got = ZSTD_decompress(text.data(), text.size(), data, entry.stored.size());
    if (ZSTD_isError(got) != 0)
      return fail(ErrorCode::kInvalidArgument, format("fatbin: zstd: {}", ZSTD_getErrorName(got)));
    text.resize(got);
    return text;
  }
  const int got = LZ4_decompress_safe(data, text.data(), static_cast<int>(entry.stored.size()),
                                      static_cast<int>(text.size()));
  if (got < 0) return malformed("LZ4 data does not decompress");
  text.resize(static_cast<std::size_t>(got));
  return text;
}

}  // namespace

Result<std::string> fatbin_text(const FatbinEntry& entry) {
  SLUICE_TRY(auto image, image_of(entry));
  // PTX is stored with its terminating zero and padded with more.
  if (entry.kind == FatbinEntry::Kind::kPtx) image.erase(image.find_last_not_of('\0') + 1);
  return image;
}

}  // namespace sluice
