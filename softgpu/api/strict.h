// SOFTGPU_STRICT=1: the refusals, delays and costs that CUDA permits a driver and that a software
// GPU has no need of. Programs and servers that pass here do not lean on softgpu's good nature. All
// randomness comes from SOFTGPU_SEED.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace sluice::softgpu {

inline constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;
inline constexpr std::size_t kContextOverheadBytes = std::size_t{300} << 20;
/// What a context's first launch takes for local memory and the like.
inline constexpr std::size_t kFirstLaunchBytes = std::size_t{32} << 20;
/// What a module's first launch takes for its code.
inline constexpr std::size_t kModuleLoadBytes = kHugePageBytes;
inline constexpr unsigned kLaunchQueueMax = 1024;

/// A sequence of numbers that depends on the seed only. Thread-safe; which thread gets which number
/// is up to the host kernel.
class StrictRandom {
 public:
  explicit StrictRandom(std::uint64_t seed) : seed_(seed) {}
  std::uint64_t next() noexcept;
  bool one_in(std::uint64_t n) noexcept { return next() % n == 0; }
  /// What an asynchronous step is held back: mostly nothing, sometimes up to kDelayMax.
  std::uint64_t delay_us() noexcept;
  static constexpr std::uint64_t kDelayMaxUs = 300;

 private:
  std::uint64_t seed_;
  std::atomic<std::uint64_t> drawn_{0};
};

bool is_strict() noexcept;
StrictRandom& strict_random();
/// Of physical memory: 2 MiB as on a GPU, 64 KiB when not strict.
std::size_t granularity() noexcept;

/// Marks the calling thread as being inside a host function, where CUDA may refuse calls.
class InsideHostFunction {
 public:
  InsideHostFunction() noexcept;
  ~InsideHostFunction();
  InsideHostFunction(const InsideHostFunction&) = delete;
  InsideHostFunction& operator=(const InsideHostFunction&) = delete;
  static bool is_active() noexcept;
};

}  // namespace sluice::softgpu
