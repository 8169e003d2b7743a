// What the shared memory of two ends contains. Both ends write to all of it and neither trusts the
// other: an end keeps its own positions for itself and publishes copies here, checks every position
// of the peer's, and copies bytes out before it looks at them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace sluice::transport::shm {

/// Changes whenever anything below does; the ends compare it before they map.
inline constexpr std::uint32_t kLayoutVersion = 1;

inline constexpr std::size_t kHeaderBytes = 4096;
inline constexpr std::size_t kRingBytes = 1024 * 1024;
inline constexpr std::size_t kStagingBytes = 8 * 1024 * 1024;
inline constexpr std::size_t kMemoryBytes = kHeaderBytes + 2 * kRingBytes + kStagingBytes;
inline constexpr std::size_t kCacheLineBytes = 64;

/// Where one side sleeps until the other has done something.
struct Bell {
  alignas(kCacheLineBytes) std::atomic<std::uint32_t> word;
  std::atomic<std::uint32_t> is_awaited;  ///< set by the sleeper, cleared by who wakes it
};

/// One direction. Positions count bytes since the beginning; they never wrap.
struct Direction {
  alignas(kCacheLineBytes) std::atomic<std::uint64_t> head;  ///< the sender has written up to here
  alignas(kCacheLineBytes) std::atomic<std::uint64_t> tail;  ///< the receiver has read up to here
  Bell data;
  Bell room;
};

struct End {
  alignas(kCacheLineBytes) std::atomic<std::uint32_t> cpu;  ///< on which it ran last
  std::atomic<std::uint32_t> is_closed;
};

struct Header {
  End client, server;
  Direction up, down;  ///< up: client to server
};

static_assert(sizeof(Header) <= kHeaderBytes);
// Other processes, and other builds, use the same bytes.
static_assert(std::atomic<std::uint64_t>::is_always_lock_free &&
              std::atomic<std::uint32_t>::is_always_lock_free);
static_assert(sizeof(Bell) == 64 && sizeof(Direction) == 256 && sizeof(Header) == 640);

}  // namespace sluice::transport::shm
