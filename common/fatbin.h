// Reads the containers in which nvcc puts device code: a wrapper that points to a fatbin, whose
// entries are PTX or ELF images, plain or compressed (zstd, LZ4). softgpu finds its PTX with it. No
// length in a container is trusted.
#pragma once

#include "common/result.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace sluice {

inline constexpr std::uint32_t kFatbinWrapperMagic = 0x466243b1;
inline constexpr std::uint32_t kFatbinMagic = 0xba55ed50;

/// What the compiler's start-up code registers; lies in the program's own memory.
struct FatbinWrapper {
  std::uint32_t magic = 0;
  std::uint32_t version = 0;   ///< 1; 2 = `more` points to a table of prelinked fatbins
  const void* data = nullptr;  ///< the fatbin
  const void* more = nullptr;
};

struct FatbinEntry {
  enum class Kind { kPtx, kElf, kOther } kind = Kind::kOther;
  std::uint32_t arch = 0;  ///< 75 = compute_75 or sm_75
  std::uint64_t flags = 0;
  std::span<const std::byte> stored;  ///< borrowed from the fatbin, perhaps compressed; padding cut
                                      ///< off if its length is known
  std::uint64_t raw_bytes = 0;        ///< length after decompression
  /// Code for this architecture (sm_90a) or its family (sm_120f) alone; a newer device cannot take
  /// it.
  [[nodiscard]] bool is_specific() const { return (flags & 0x300000) != 0; }
};

/// Total length of the fatbin at `fatbin`, from its header. Err(kInvalidArgument) if that is no
/// header.
Result<std::size_t> fatbin_bytes(const void* fatbin);

/// The entries in their order, borrowed from `fatbin`; never reads outside it.
/// Err(kInvalidArgument) if lengths do not fit.
Result<std::vector<FatbinEntry>> fatbin_entries(std::span<const std::byte> fatbin);

/// The decompressed image of an entry, PTX without the zeroes behind it. Err(kInvalidArgument) for
/// damaged data or more than 1 GiB.
Result<std::string> fatbin_text(const FatbinEntry& entry);

}  // namespace sluice
