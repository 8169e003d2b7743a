// Channels through shared memory, between two processes of one host. The memory is a memfd that
// nobody can resize any more, so that touching it never faults. The client makes it (it is charged
// for it) and passes it to the server (SCM_RIGHTS), which checks it. Both keep the socket on which
// it was passed: by its end each learns that the other is gone.
#pragma once

#include "common/fd.h"
#include "common/result.h"
#include "transport/shm/layout.h"
#include "transport/transport.h"

#include <cstddef>
#include <memory>
#include <span>

namespace sluice::transport::shm {

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

/// New memory, sealed and mapped; errors (no memfd, limits) are those of the host.
struct Made {
  Fd fd;
  Mapping mapping;
};
Result<Made> make_memory();
/// Maps a peer's. Err(kProtocol) unless the descriptor is a memfd of the right size, sealed against
/// any change of it.
Result<Mapping> adopt_memory(int fd);

enum class Side { kClient, kServer };
std::unique_ptr<Channel> make_channel(Mapping memory, Fd socket, Side side);

}  // namespace sluice::transport::shm
