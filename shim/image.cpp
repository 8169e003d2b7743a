#include "shim/image.h"

#include "common/format.h"

#include <elf.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <fstream>

namespace sluice::shim {
namespace {

constexpr std::uint32_t kWrapperMagic = 0x466243b1;
constexpr std::uint32_t kFatbinMagic = 0xba55ed50;

struct FatbinWrapper {
  std::uint32_t magic = 0;
  std::uint32_t version = 0;  // 1, or 2 = `more` points to a table of prelinked fatbins
  const void* fatbin = nullptr;
  const void* more = nullptr;
};

struct FatbinHeader {
  std::uint32_t magic = 0;
  std::uint16_t version = 0;
  std::uint16_t header_bytes = 0;
  std::uint64_t body_bytes = 0;
};

template <class T>
T read_at(const void* base, std::uint64_t offset = 0) {
  T value;
  std::memcpy(&value, static_cast<const std::byte*>(base) + offset, sizeof value);
  return value;
}

Result<std::span<const std::byte>> view(const void* image, std::uint64_t bytes) {
  if (bytes == 0 || bytes > kImageBytesMax)
    return fail(ErrorCode::kInvalidArgument,
                format("a module image cannot be {} bytes long", bytes));
  return std::span(static_cast<const std::byte*>(image), static_cast<std::size_t>(bytes));
}

Result<std::span<const std::byte>> fatbin_bytes(const void* image) {
  const auto header = read_at<FatbinHeader>(image);
  if (header.magic != kFatbinMagic || header.header_bytes < sizeof header)
    return fail(ErrorCode::kInvalidArgument, "the fatbin header is damaged");
  if (header.body_bytes > kImageBytesMax) return view(image, header.body_bytes);
  return view(image, header.header_bytes + header.body_bytes);
}

/// The end of whatever the headers mention; a cubin has no length field of its own.
Result<std::span<const std::byte>> elf_bytes(const void* image) {
  const auto header = read_at<Elf64_Ehdr>(image);
  if (header.e_ident[EI_CLASS] != ELFCLASS64)
    return fail(ErrorCode::kInvalidArgument, "a 32-bit cubin");
  std::uint64_t end = header.e_ehsize;
  const auto cover = [&end](std::uint64_t offset, std::uint64_t bytes) {
    if (offset <= kImageBytesMax && bytes <= kImageBytesMax) {
      end = std::max(end, offset + bytes);
    } else {
      end = kImageBytesMax + 1;
    }
  };
  cover(header.e_shoff, std::uint64_t{header.e_shnum} * header.e_shentsize);
  cover(header.e_phoff, std::uint64_t{header.e_phnum} * header.e_phentsize);
  if (end > kImageBytesMax) return view(image, end);
  for (unsigned i = 0; i < header.e_shnum; ++i) {
    const auto section =
        read_at<Elf64_Shdr>(image, header.e_shoff + std::uint64_t{i} * header.e_shentsize);
    if (section.sh_type != SHT_NOBITS) cover(section.sh_offset, section.sh_size);
  }
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    const auto segment =
        read_at<Elf64_Phdr>(image, header.e_phoff + std::uint64_t{i} * header.e_phentsize);
    cover(segment.p_offset, segment.p_filesz);
  }
  return view(image, end);
}

}  // namespace

Result<std::span<const std::byte>> image_bytes(const void* image) {
  // Byte by byte: a text may be shorter than a magic number.
  const auto* text = static_cast<const char*>(image);
  if (text[0] == '\0') return fail(ErrorCode::kInvalidArgument, "the module image is empty");
  if (std::strncmp(text, ELFMAG, SELFMAG) == 0) return elf_bytes(image);
  if (std::strncmp(text, "\x50\xed\x55\xba", 4) == 0) return fatbin_bytes(image);
  if (std::strncmp(text, "\xb1\x43\x62\x46", 4) == 0) {
    const auto wrapper = read_at<FatbinWrapper>(image);
    if (wrapper.magic != kWrapperMagic || wrapper.version < 1 || wrapper.version > 2 ||
        wrapper.fatbin == nullptr)
      return fail(ErrorCode::kInvalidArgument, "the fatbin wrapper is damaged");
    return fatbin_bytes(wrapper.fatbin);
  }
  return view(image, strnlen(text, kImageBytesMax + 1));
}

Result<std::vector<std::byte>> read_image_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  const auto bytes = file ? static_cast<std::int64_t>(file.tellg()) : -1;
  if (bytes < 0) return fail(ErrorCode::kNotFound, path + ": cannot be read");
  if (static_cast<std::uint64_t>(bytes) > kImageBytesMax)
    return fail(ErrorCode::kInvalidArgument, path + ": too long for a module");
  // A final zero, so that PTX text ends.
  std::vector<std::byte> data(static_cast<std::size_t>(bytes) + 1);
  file.seekg(0);
  if (bytes > 0 && !file.read(reinterpret_cast<char*>(data.data()), bytes))
    return fail(ErrorCode::kNotFound, path + ": cannot be read");
  return data;
}

}  // namespace sluice::shim
