// Whether an end may spin before it sleeps. Spinning wins 10 to 100 us when the peer answers from
// another core at once, and loses its whole length when the peer needs this core: so it must have
// paid lately.
#pragma once

#include <chrono>
#include <cstdint>

namespace sluice::transport::shm {

/// Confined to one side of a channel.
class SpinPolicy {
 public:
  /// Without traffic for so long nobody spins.
  static constexpr std::chrono::microseconds kSpin{50};

  explicit SpinPolicy(unsigned core_count) : has_cores_(core_count > 1) {}

  /// The two processors are where this end runs and where the peer ran last.
  bool may_spin(std::uint32_t own_cpu, std::uint32_t peer_cpu) {
    if (!has_cores_ || is_quiet_ || own_cpu == peer_cpu) return false;
    if (credit_ > 0) return true;
    // The machine may have become idle since.
    return ++refusals_ % kRetryInterval == 0;
  }
  void succeeded() { credit_ = credit_ + kReward < kCreditMax ? credit_ + kReward : kCreditMax; }
  void failed() {
    if (credit_ > 0) --credit_;
  }
  /// A wait ended without traffic / bytes came.
  void note_quiet() { is_quiet_ = true; }
  void note_traffic() { is_quiet_ = false; }

 private:
  static constexpr int kCreditMax = 16;
  static constexpr int kReward = 2;
  static constexpr std::uint32_t kRetryInterval = 64;

  bool has_cores_;
  bool is_quiet_ = false;
  int credit_ = kCreditMax;
  std::uint32_t refusals_ = 0;
};

}  // namespace sluice::transport::shm
