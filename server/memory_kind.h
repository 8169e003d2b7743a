// What device memory is held for: broker and worker itemise the ledger by it, and every view shows
// it. docs/slices.md explains the kinds to administrators.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace sluice::server {

/// The numbers travel (link, control plane): new kinds go to the end.
enum class MemoryKind : std::uint8_t {
  kData,        ///< allocations of the program: cuMemAlloc, cuMemCreate
  kSlab,        ///< granules that small allocations share
  kArray,       ///< arrays and mipmaps
  kPool,        ///< stream-ordered allocations
  kModule,      ///< variables and code of modules and libraries that the program loaded
  kContext,     ///< what a context took when it was made
  kLibrary,     ///< what driver and CUDA-X libraries took for themselves, and no call explains
  kLocal,       ///< stacks, heap and printf buffer of kernels, after cuCtxSetLimit
  kGraph,       ///< what an executable graph took when it was made
  kImport,      ///< another session's memory: charged to whoever exported it
  kHostPinned,  ///< pinned memory of the host: of no device and of no slice
};
inline constexpr std::size_t kMemoryKindCount = 11;

/// Bytes by kind.
using MemoryByKind = std::array<std::uint64_t, kMemoryKindCount>;

/// As in configuration, views and metrics.
inline constexpr std::array<std::string_view, kMemoryKindCount> kMemoryKindNames = {
    "data",    "slab",  "array", "pool",   "module",     "context",
    "library", "local", "graph", "import", "host_pinned"};

constexpr std::size_t index_of(MemoryKind kind) {
  return static_cast<std::size_t>(kind);
}
constexpr std::string_view name_of(MemoryKind kind) {
  return kMemoryKindNames[index_of(kind)];
}

/// How a kind counts.
enum class MemoryClass {
  kSlice,     ///< against the tenant's slice and the device
  kOverhead,  ///< against the device; against the slice only if the tenant is charged for it
  kNeither,   ///< only shown: it is of no device, or another session is charged for it
};
constexpr MemoryClass class_of(MemoryKind kind) {
  switch (kind) {
    case MemoryKind::kData:
    case MemoryKind::kSlab:
    case MemoryKind::kArray:
    case MemoryKind::kPool:
    case MemoryKind::kModule:
    case MemoryKind::kGraph:
      return MemoryClass::kSlice;
    case MemoryKind::kContext:
    case MemoryKind::kLibrary:
    case MemoryKind::kLocal:
      return MemoryClass::kOverhead;
    case MemoryKind::kImport:
    case MemoryKind::kHostPinned:
      return MemoryClass::kNeither;
  }
  return MemoryClass::kSlice;
}

/// Of all kinds of that class.
constexpr std::uint64_t sum_of(const MemoryByKind& bytes, MemoryClass wanted) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < kMemoryKindCount; ++i)
    if (class_of(static_cast<MemoryKind>(i)) == wanted) sum += bytes[i];
  return sum;
}

}  // namespace sluice::server
