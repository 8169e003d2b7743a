// The session's turns on the devices: the broker opens and closes them (server/turns), the driver
// asks here before a thread computes. Measures exactly how long the session computed: the time in
// which at least one of its threads did.
#pragma once

#include "common/turn_hooks.h"
#include "server/turns/pages.h"

#include <array>
#include <chrono>
#include <mutex>
#include <string>

namespace sluice::server {

/// Thread-safe. The pages and the bell are what the broker gave to this session. Must outlive the
/// driver's last kernel: in a worker it is never destroyed.
class Turns {
 public:
  Turns(turns::Mapped<const turns::Grants> grants, turns::Mapped<turns::Uses> uses, Fd bell);
  Turns(const Turns&) = delete;
  Turns& operator=(const Turns&) = delete;

  /// Makes the driver (loaded already) ask here. False: it does not know how to.
  bool hold(const std::string& driver_path);

  // ---- what the driver says and asks, see common/turn_hooks.h
  void add_work(unsigned device);
  void remove_work(unsigned device);
  bool begin(unsigned device, std::uint64_t patience_ns);
  void end(unsigned device);

  [[nodiscard]] bool may_compute(unsigned device) const;
  /// Others wait.
  [[nodiscard]] bool is_contended(unsigned device) const {
    return grant(device).is_contended.load() != 0;
  }
  /// Device time that may be under way at once while others wait.
  [[nodiscard]] std::chrono::nanoseconds window(unsigned device) const {
    const std::uint64_t ns = grant(device).window_ns;
    return std::chrono::nanoseconds(ns != 0 ? ns : turns::kWindowNs);
  }
  /// On all devices.
  [[nodiscard]] std::uint64_t busy_us() const;

  // ---- for copies, see copy_pacer.h
  [[nodiscard]] const turns::CopyGrant& copy_grant(unsigned queue) const {
    return grants_->copies[queue];
  }
  turns::CopyUse& copy_use(unsigned queue) { return uses_->copies[queue]; }
  [[nodiscard]] const std::atomic<std::uint32_t>& copy_changes() const {
    return grants_->copy_changes;
  }
  /// Makes the broker look.
  void ring();

 private:
  struct Device {
    mutable std::mutex mutex;
    unsigned running = 0, work = 0;
  };
  [[nodiscard]] const turns::Grant& grant(unsigned device) const {
    return grants_->devices[device];
  }
  turns::Use& use(unsigned device) { return uses_->devices[device]; }

  turns::Mapped<const turns::Grants> grants_;
  turns::Mapped<turns::Uses> uses_;
  Fd bell_;
  std::array<Device, turns::kDevicesMax> devices_;
  sluice_turn_hooks hooks_{};
};

}  // namespace sluice::server
