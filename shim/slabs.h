// Small allocations of one context, cut from slabs: blocks of one granule that are used for nothing
// else. A slab of which nothing is in use any more is a block again.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace sluice::shim {

/// What blocks of device memory are a multiple of, as the devices' own pages are.
inline constexpr std::size_t kGranuleBytes = std::size_t{2} << 20;

/// Not thread-safe.
class Slabs {
 public:
  static constexpr std::size_t kUnitBytes = 512;  ///< alignment and step of small allocations
  static std::size_t in_units(std::size_t bytes) {
    return (bytes + kUnitBytes - 1) / kUnitBytes * kUnitBytes;
  }

  /// The smallest free stretch that is long enough, the lowest of these; none: add() a slab.
  std::optional<CUdeviceptr> take(std::size_t bytes);
  /// Gives back `bytes` as they were taken. The slab's address if it is empty now: it is taken out.
  std::optional<CUdeviceptr> give(CUdeviceptr address, std::size_t bytes);
  /// A granule of memory.
  void add(CUdeviceptr slab);
  void clear();

 private:
  void insert(CUdeviceptr address, std::size_t bytes);
  void erase(std::map<CUdeviceptr, std::size_t>::iterator stretch);

  std::set<CUdeviceptr> slabs_;
  std::map<CUdeviceptr, std::size_t> free_;  ///< stretches, never across slabs
  std::set<std::pair<std::size_t, CUdeviceptr>> by_size_;
};

}  // namespace sluice::shim
