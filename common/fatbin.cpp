#include "common/fatbin.h"

#include "common/format.h"

#include <algorithm>
#include <cstring>

#include <lz4.h>
#include <zstd.h>

namespace sluice::fatbin {
namespace {

constexpr std::uint64_t kFlagLz4 = 0x2000;
constexpr std::uint64_t kFlagZstd = 0x8000;
// Seen on entries for sm_90a, sm_120f and the like: code that runs on that architecture (or family) alone.
constexpr std::uint64_t kFlagsSpecific = 0x300000;
constexpr std::size_t kHeaderBytes = 16;
constexpr std::size_t kEntryHeaderBytesMin = 64;
constexpr std::size_t kEntryHeaderBytesMax = 4096;

struct Wrapper {
  std::uint32_t magic;
  std::uint32_t version;
  const void* fatbin;
  const void* extra;
};

struct Header {
  std::uint32_t magic;
  std::uint16_t version;
  std::uint16_t header_bytes;
  std::uint64_t body_bytes;
};

template <class T>
T load(std::span<const std::byte> bytes, std::size_t offset_bytes) {
  T value;
  std::memcpy(&value, bytes.data() + offset_bytes, sizeof value);
  return value;
}

Result<std::string> inflate_zstd(const Entry& entry) {
  std::string out(entry.uncompressed_bytes, '\0');
  const std::size_t n = ZSTD_decompress(out.data(), out.size(), entry.payload.data(), entry.payload.size());
  if (ZSTD_isError(n) != 0)
    return fail(ErrorCode::kInvalidArgument, format("fatbin: zstd: {}", ZSTD_getErrorName(n)));
  out.resize(n);
  return out;
}

Result<std::string> inflate_lz4(const Entry& entry) {
  std::string out(entry.uncompressed_bytes, '\0');
  const int n = LZ4_decompress_safe(reinterpret_cast<const char*>(entry.payload.data()), out.data(),
                                    static_cast<int>(entry.payload.size()), static_cast<int>(out.size()));
  if (n < 0) return fail(ErrorCode::kInvalidArgument, "fatbin: damaged LZ4 block");
  out.resize(static_cast<std::size_t>(n));
  return out;
}

}  // namespace

ImageKind image_kind(const void* image) noexcept {
  const auto* bytes = static_cast<const unsigned char*>(image);
  unsigned char first[4] = {};
  for (std::size_t i = 0; i < sizeof first; ++i) {
    first[i] = bytes[i];
    if (first[i] == 0) break;
  }
  std::uint32_t magic = 0;
  std::memcpy(&magic, first, sizeof magic);
  if (magic == kWrapperMagic) return ImageKind::kWrapper;
  if (magic == kFatbinMagic) return ImageKind::kFatbin;
  if (std::memcmp(first, "\x7f"
                         "ELF",
                  4) == 0)
    return ImageKind::kElf;
  const bool is_text = first[0] == '\t' || first[0] == '\n' || first[0] == '\r' || (first[0] >= 0x20 && first[0] < 0x7f);
  return is_text ? ImageKind::kText : ImageKind::kUnknown;
}

Result<std::span<const std::byte>> unwrap(const void* wrapper) {
  Wrapper w;
  std::memcpy(&w, wrapper, sizeof w);
  if (w.magic != kWrapperMagic) return fail(ErrorCode::kInvalidArgument, "fatbin: no wrapper");
  if (w.version != 1)
    return fail(ErrorCode::kInvalidArgument, format("fatbin: wrapper version {} is not known", w.version));
  if (w.fatbin == nullptr) return fail(ErrorCode::kInvalidArgument, "fatbin: empty wrapper");
  return measure(w.fatbin);
}

Result<std::span<const std::byte>> measure(const void* fatbin) {
  Header header;
  std::memcpy(&header, fatbin, sizeof header);
  if (header.magic != kFatbinMagic || header.version != 1 || header.header_bytes < kHeaderBytes)
    return fail(ErrorCode::kInvalidArgument, "fatbin: unknown header");
  if (header.body_bytes > kFatbinBytesMax)
    return fail(ErrorCode::kInvalidArgument, format("fatbin: {} bytes are too many", header.body_bytes));
  return std::span(static_cast<const std::byte*>(fatbin), header.header_bytes + header.body_bytes);
}

Result<std::vector<Entry>> entries(std::span<const std::byte> fatbin) {
  if (fatbin.size() < kHeaderBytes) return fail(ErrorCode::kInvalidArgument, "fatbin: shorter than its header");
  const auto header = load<Header>(fatbin, 0);
  if (header.magic != kFatbinMagic || header.version != 1 || header.header_bytes < kHeaderBytes)
    return fail(ErrorCode::kInvalidArgument, "fatbin: unknown header");
  if (header.header_bytes > fatbin.size() || header.body_bytes > fatbin.size() - header.header_bytes)
    return fail(ErrorCode::kInvalidArgument, "fatbin: cut short");
  auto rest = fatbin.subspan(header.header_bytes, header.body_bytes);

  std::vector<Entry> found;
  while (rest.size() >= kEntryHeaderBytesMin) {
    const auto header_bytes = load<std::uint32_t>(rest, 4);
    const auto stored_bytes = load<std::uint64_t>(rest, 8);
    const auto compressed_bytes = load<std::uint32_t>(rest, 16);
    if (header_bytes < kEntryHeaderBytesMin || header_bytes > kEntryHeaderBytesMax || header_bytes > rest.size() ||
        stored_bytes > rest.size() - header_bytes || compressed_bytes > stored_bytes)
      return fail(ErrorCode::kInvalidArgument, format("fatbin: entry {} does not fit", found.size()));
    if (found.size() == kEntriesMax) return fail(ErrorCode::kInvalidArgument, "fatbin: too many entries");
    Entry entry;
    entry.kind = load<std::uint16_t>(rest, 0);
    entry.arch = load<std::uint32_t>(rest, 28);
    entry.flags = load<std::uint64_t>(rest, 40);
    entry.uncompressed_bytes = load<std::uint64_t>(rest, 56);
    const bool is_compressed = (entry.flags & (kFlagLz4 | kFlagZstd)) != 0;
    entry.payload = rest.subspan(header_bytes, is_compressed && compressed_bytes != 0 ? compressed_bytes : stored_bytes);
    found.push_back(entry);
    rest = rest.subspan(header_bytes + stored_bytes);
  }
  return found;
}

Result<std::string> contents(const Entry& entry) {
  if (entry.uncompressed_bytes > kImageBytesMax || entry.payload.size() > kImageBytesMax)
    return fail(ErrorCode::kExhausted, format("fatbin: an image of {} bytes is too large", entry.uncompressed_bytes));
  if ((entry.flags & kFlagZstd) != 0) return inflate_zstd(entry);
  if ((entry.flags & kFlagLz4) != 0) return inflate_lz4(entry);
  return std::string(reinterpret_cast<const char*>(entry.payload.data()), entry.payload.size());
}

const Entry* newest_ptx(std::span<const Entry> entries, std::uint32_t device_arch) noexcept {
  const Entry* best = nullptr;
  for (const Entry& entry : entries) {
    if (entry.kind != static_cast<std::uint16_t>(EntryKind::kPtx) || entry.arch > device_arch) continue;
    if ((entry.flags & kFlagsSpecific) != 0 && entry.arch != device_arch) continue;
    if (best == nullptr || entry.arch > best->arch) best = &entry;
  }
  return best;
}

}  // namespace sluice::fatbin
