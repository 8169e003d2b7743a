#include "softgpu/api/strict.h"

#include <cstdlib>
#include <cstring>

namespace sluice::softgpu {
namespace {

thread_local int t_host_function_depth = 0;

}  // namespace

std::uint64_t StrictRandom::next() noexcept {
  // splitmix64: the n-th number needs no state but n.
  std::uint64_t z =
      seed_ + (drawn_.fetch_add(1, std::memory_order_relaxed) + 1) * 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

std::uint64_t StrictRandom::delay_us() noexcept {
  const std::uint64_t drawn = next();
  return drawn % 4 == 0 ? (drawn >> 8) % (kDelayMaxUs + 1) : 0;
}

bool is_strict() noexcept {
  static const bool value = [] {
    const char* text = std::getenv("SOFTGPU_STRICT");
    return text != nullptr && *text != '\0' && std::strcmp(text, "0") != 0;
  }();
  return value;
}

StrictRandom& strict_random() {
  static auto* instance = [] {
    const char* text = std::getenv("SOFTGPU_SEED");
    return new StrictRandom(text != nullptr ? std::strtoull(text, nullptr, 10) : 1);
  }();
  return *instance;
}

std::size_t granularity() noexcept {
  return is_strict() ? kHugePageBytes : std::size_t{64} << 10;
}

InsideHostFunction::InsideHostFunction() noexcept {
  ++t_host_function_depth;
}
InsideHostFunction::~InsideHostFunction() {
  --t_host_function_depth;
}
bool InsideHostFunction::is_active() noexcept {
  return t_host_function_depth > 0;
}

}  // namespace sluice::softgpu
