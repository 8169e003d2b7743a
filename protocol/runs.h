// Differences of two copies of a stretch of memory, as runs: offset, length, bytes (padded to 8).
// With them both sides keep memory alike that each may write (shadow ranges, architecture D16).
#pragma once

#include "common/racing_reads.h"
#include "protocol/wire.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace sluice::wire {

inline constexpr std::size_t kRunGranularity = 4;  ///< bytes of a word that is compared as a whole

inline bool is_same_now(const std::byte* now, const std::byte* last, std::size_t bytes) {
  const RacingReads racing;
  return std::memcmp(now, last, bytes) == 0;
}
inline void take_now(std::byte* last, const std::byte* now, std::size_t bytes) {
  const RacingReads racing;
  std::memcpy(last, now, bytes);
}

/// Calls emit(offset, bytes) for each stretch in which `now` differs from `last`, and makes `last`
/// equal to `now`. What emit looks at is in `last`: `now` may be changing.
template <class Emit>
void for_each_difference(const std::byte* now, std::byte* last, std::size_t bytes,
                         const Emit& emit) {
  constexpr std::size_t kChunkBytes = 4096;
  std::size_t run_start = 0;
  bool in_run = false;
  for (std::size_t chunk = 0; chunk < bytes; chunk += kChunkBytes) {
    const std::size_t end = std::min(chunk + kChunkBytes, bytes);
    const bool is_same = is_same_now(now + chunk, last + chunk, end - chunk);
    if (is_same && !in_run) continue;
    for (std::size_t at = chunk; at < end; at += kRunGranularity) {
      const std::size_t n = std::min(kRunGranularity, end - at);
      const bool differs = !is_same && !is_same_now(now + at, last + at, n);
      if (differs && !in_run) run_start = at;
      if (!differs && in_run) emit(run_start, at - run_start);
      in_run = differs;
      if (differs) take_now(last + at, now + at, n);
    }
  }
  if (in_run) emit(run_start, bytes - run_start);
}

/// The differences in pieces of at most about kPayloadBytesMax: calls send(runs) for each. What is
/// sent is what `last` then holds.
template <class Send>
void send_differences(const std::byte* now, std::byte* last, std::size_t bytes, const Send& send) {
  constexpr std::size_t kPieceBytes = kPayloadBytesMax - 64;
  std::vector<std::byte> runs;
  for_each_difference(now, last, bytes, [&](std::size_t offset, std::size_t length) {
    while (length > 0) {
      if (runs.size() + 64 > kPieceBytes) {
        send(std::span<const std::byte>(runs));
        runs.clear();
      }
      const std::size_t n = std::min(length, kPieceBytes - runs.size() - 16);
      const std::uint64_t head[2] = {offset, n};
      const std::size_t at = runs.size();
      runs.resize(at + sizeof head + padded(n));
      std::memcpy(runs.data() + at, head, sizeof head);
      std::memcpy(runs.data() + at + sizeof head, last + offset, n);
      offset += n;
      length -= n;
    }
  });
  if (!runs.empty()) send(std::span<const std::byte>(runs));
}

/// Calls apply(offset, bytes) for each run; false if one is malformed or beyond `limit`.
template <class Apply>
bool for_each_run(std::span<const std::byte> runs, std::size_t limit, const Apply& apply) {
  while (!runs.empty()) {
    std::uint64_t head[2];
    if (runs.size() < sizeof head) return false;
    std::memcpy(head, runs.data(), sizeof head);
    runs = runs.subspan(sizeof head);
    if (head[1] > runs.size() || padded(head[1]) > runs.size() || head[0] > limit ||
        head[1] > limit - head[0])
      return false;
    apply(head[0], runs.first(head[1]));
    runs = runs.subspan(padded(head[1]));
  }
  return true;
}

}  // namespace sluice::wire
