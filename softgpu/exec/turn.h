// The device as something that processes share. Without hooks it is this process's alone, and all
// of this does nothing.
#pragma once

#include "common/turn_hooks.h"

#include <atomic>
#include <cstdint>
#include <functional>

namespace sluice::softgpu {

/// Before the first launch; the table must live on. Null: none. False: of another version.
bool set_turn_hooks(const sluice_turn_hooks* hooks);
[[nodiscard]] const sluice_turn_hooks* turn_hooks();

/// While it lives, its thread computes on the device. A thread has at most one.
class Turn {
 public:
  /// Waits for permission, until `stops` says true: then has_begun() is false, and nothing may be
  /// computed.
  Turn(unsigned device, const std::function<bool()>& stops);
  ~Turn() { end(); }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  [[nodiscard]] bool has_begun() const { return has_begun_; }
  /// Between blocks: waits while the device is another process's.
  void let_others() {
    if (word_ == nullptr || is_open()) return;
    end();
    begin();
  }

 private:
  void begin();
  void end();
  [[nodiscard]] bool is_open() const;

  const unsigned device_;
  const std::function<bool()>& stops_;
  const std::uint32_t* word_ = nullptr;
  const std::uint64_t* until_ns_ = nullptr;
  bool has_begun_ = false;
};

}  // namespace sluice::softgpu
