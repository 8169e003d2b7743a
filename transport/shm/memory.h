// The memory that both ends of a shared-memory channel see: a memfd that nobody can resize any
// more, so that touching it never faults. The client makes it (it is charged for it), the server
// checks it.
#pragma once

#include "common/fd.h"
#include "common/result.h"
#include "transport/shm/layout.h"

#include <cstddef>
#include <span>

namespace sluice::transport::shm {

/// Err(kProtocol) unless the descriptor is a memfd of the right size, sealed against any change of
/// it.
Status check_memory(int fd);

/// One end's view. A forked child does not inherit it.
class Mapping {
 public:
  static Result<Mapping> map(int fd);
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&&) = delete;
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping();

  /// False in a forked child.
  [[nodiscard]] bool is_here() const;
  [[nodiscard]] Header& header() const { return *reinterpret_cast<Header*>(base_); }
  /// Followed by a second view of the same kRingBytes: whatever starts in the ring is contiguous.
  [[nodiscard]] std::byte* up() const { return base_ + kHeaderBytes; }
  [[nodiscard]] std::byte* down() const { return up() + 2 * kRingBytes; }
  [[nodiscard]] std::span<std::byte> staging() const {
    return {down() + 2 * kRingBytes, kStagingBytes};
  }

 private:
  explicit Mapping(std::byte* base);
  std::byte* base_ = nullptr;
  int owner_pid_ = 0;
};

}  // namespace sluice::transport::shm
