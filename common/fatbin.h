// Reads the containers in which nvcc puts device code: a wrapper that points to a fatbin, whose entries are PTX or ELF
// images, plain or compressed (zstd, LZ4). Used by softgpu to find its PTX and by the shim to know how long an image is.
#pragma once

#include "common/result.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::fatbin {

inline constexpr std::uint32_t kWrapperMagic = 0x466243b1;
inline constexpr std::uint32_t kFatbinMagic = 0xba55ed50;
inline constexpr std::uint64_t kFatbinBytesMax = std::uint64_t{1} << 32;
inline constexpr std::uint64_t kImageBytesMax = std::uint64_t{1} << 30;
inline constexpr std::size_t kEntriesMax = 4096;

enum class ImageKind { kWrapper, kFatbin, kElf, kText, kUnknown };
/// What an image passed to a module load is, from its first bytes (at least 4 of them are read, never past a zero byte).
ImageKind image_kind(const void* image) noexcept;

enum class EntryKind : std::uint16_t { kPtx = 1, kElf = 2, kLtoIr = 8 };
struct Entry {
  std::uint16_t kind = 0;  ///< an EntryKind, or one that is not known here
  std::uint32_t arch = 0;  ///< 75 = compute_75 / sm_75
  std::uint64_t flags = 0;
  std::uint64_t uncompressed_bytes = 0;
  std::span<const std::byte> payload;  ///< borrowed from the fatbin, padding cut off
};

/// The fatbin that a wrapper in this process's memory points to, its length taken from its own header.
/// Err(kInvalidArgument) when the magic numbers or the version are unknown.
Result<std::span<const std::byte>> unwrap(const void* wrapper);
/// A bare fatbin in this process's memory. Trusts that the memory exists that its header declares.
Result<std::span<const std::byte>> measure(const void* fatbin);

/// The entries, borrowed from `fatbin`. Never reads outside the span. Err(kInvalidArgument) if lengths do not fit.
Result<std::vector<Entry>> entries(std::span<const std::byte> fatbin);

/// The image of one entry, decompressed. Err(kInvalidArgument) for damaged data, Err(kUnsupported) for unknown codecs,
/// Err(kExhausted) above kImageBytesMax.
Result<std::string> contents(const Entry& entry);

/// The PTX entry for the newest architecture that is not newer than `device_arch` (121 = compute capability 12.1);
/// architecture-specific code counts only for exactly its architecture. Null if there is none.
const Entry* newest_ptx(std::span<const Entry> entries, std::uint32_t device_arch) noexcept;

}  // namespace sluice::fatbin
