// Wakes a thread that sleeps beside the worker's own descriptor: another thread may have taken from
// the worker what this one waits for.
#pragma once

#include "common/fd.h"

#include <sys/eventfd.h>

#include <cstdint>

namespace sluice::transport::ucx {

/// Guarded by the wire's lock, but for the sleep itself.
class Bell {
 public:
  Bell() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  [[nodiscard]] int fd() const { return fd_.get(); }
  void await() { is_awaited_ = true; }
  void awake() {
    is_awaited_ = false;
    std::uint64_t count = 0;
    while (::read(fd_.get(), &count, sizeof count) > 0) {
    }
  }
  /// Costs nothing unless somebody sleeps.
  void ring() {
    const std::uint64_t one = 1;
    if (is_awaited_ && ::write(fd_.get(), &one, sizeof one) > 0) is_awaited_ = false;
  }

 private:
  Fd fd_;
  bool is_awaited_ = false;
};

}  // namespace sluice::transport::ucx
