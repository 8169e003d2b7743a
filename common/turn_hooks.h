// How a driver that runs kernels itself (softgpu) lets whoever loaded it divide a device among
// processes: the driver asks before a thread computes, and looks at a word between blocks. Plain C
// types, since the two are built apart; softgpu_set_turn_hooks() takes the table.
#pragma once

#include <cstdint>

extern "C" {

/// Called from any thread, also under the driver's locks: nothing here may call the driver.
struct sluice_turn_hooks {
  unsigned version;  ///< kTurnHooksVersion; others are refused
  void* user;
  /// An operation for the device can start now / is over. A successor that can start is told of
  /// before its predecessor is over: no gap lies between the kernels of one stream.
  void (*add_work)(void* user, unsigned device);
  void (*remove_work)(void* user, unsigned device);
  /// True: this thread may compute from here on. False: not within the time; ask again.
  bool (*begin)(void* user, unsigned device, unsigned patience_us);
  /// This thread computes no more.
  void (*end)(void* user, unsigned device);
  /// While the word is 0, or CLOCK_MONOTONIC is past the other one (in nanoseconds), threads must
  /// not go on to their next block. Both outlive the table.
  const std::uint32_t* (*open_word)(void* user, unsigned device);
  const std::uint64_t* (*open_until)(void* user, unsigned device);
};
}

namespace sluice {
inline constexpr unsigned kTurnHooksVersion = 1;
inline constexpr const char* kSetTurnHooksName = "softgpu_set_turn_hooks";
/// False: it is of another version. Before the first launch; null: the device is this process's.
using SetTurnHooks = bool (*)(const sluice_turn_hooks*);
}  // namespace sluice
