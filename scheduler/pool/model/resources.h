// What queues share and leases reserve: compute and memory. Whole numbers, so that sums are exact
// however often something is added and taken away.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>

namespace sluice::pool {

enum class Resource : std::uint8_t { kCompute, kMemory };
inline constexpr std::size_t kResourceCount = 2;
inline constexpr std::array<Resource, kResourceCount> kResources = {Resource::kCompute,
                                                                    Resource::kMemory};
/// The compute of one whole device.
inline constexpr std::int64_t kDevicePermille = 1000;

struct Resources {
  std::int64_t compute_permille = 0;  ///< thousandths of a device's time
  std::int64_t memory_bytes = 0;

  bool operator==(const Resources&) const = default;
  std::int64_t& operator[](Resource resource) {
    return resource == Resource::kCompute ? compute_permille : memory_bytes;
  }
  std::int64_t operator[](Resource resource) const {
    return resource == Resource::kCompute ? compute_permille : memory_bytes;
  }
  Resources& operator+=(const Resources& other) {
    compute_permille += other.compute_permille;
    memory_bytes += other.memory_bytes;
    return *this;
  }
  Resources& operator-=(const Resources& other) {
    compute_permille -= other.compute_permille;
    memory_bytes -= other.memory_bytes;
    return *this;
  }
  friend Resources operator+(Resources a, const Resources& b) { return a += b; }
  friend Resources operator-(Resources a, const Resources& b) { return a -= b; }
  [[nodiscard]] Resources times(std::int64_t count) const {
    return {.compute_permille = compute_permille * count, .memory_bytes = memory_bytes * count};
  }
  [[nodiscard]] bool fits_in(const Resources& room) const {
    return compute_permille <= room.compute_permille && memory_bytes <= room.memory_bytes;
  }
};

inline Resources min(const Resources& a, const Resources& b) {
  return {.compute_permille = std::min(a.compute_permille, b.compute_permille),
          .memory_bytes = std::min(a.memory_bytes, b.memory_bytes)};
}

/// "2.5 GPUs", "64 GiB".
std::string amount_text(Resource resource, std::int64_t amount);
/// "compute", "memory".
const char* resource_name(Resource resource);

}  // namespace sluice::pool
