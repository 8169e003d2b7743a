// The two pages through which the broker and a worker speak of the device's time, and of the ways
// that data takes to it and from it. Each side writes
// one and only reads the other: a worker cannot give itself a turn, and the broker believes no
// more of what a worker writes than it must. Whoever changes something first stores it and then
// looks at the other's page (both sequentially consistent), so that one of the two always sees it.
#pragma once

#include "common/fd.h"
#include "common/result.h"

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace sluice::server::turns {

inline constexpr unsigned kDevicesMax = 32;

/// Written by the broker.
struct alignas(64) Grant {
  std::atomic<std::uint32_t> is_open;       ///< a futex; 1: the session may compute on the device
  std::atomic<std::uint32_t> is_contended;  ///< 1: others wait; an idle session gives it back
  /// On CLOCK_MONOTONIC. What is later has no permission, whatever is_open says: a broker that
  /// hangs leaves nobody running uncapped.
  std::atomic<std::uint64_t> open_until_ns;
  /// While others wait, no more than so much device time may be under way at once; for sessions
  /// that are held between commands. 0: kWindowNs.
  std::atomic<std::uint64_t> window_ns;
};
inline constexpr std::uint64_t kWindowNs = 4'000'000;

/// Written by the worker.
struct alignas(64) Use {
  std::atomic<std::uint32_t> running;   ///< threads, or commands, that compute now
  std::atomic<std::uint32_t> has_work;  ///< 1: something for the device could run
  std::atomic<std::uint64_t> busy_ns;   ///< time with `running` > 0, up to now or the last change
  std::atomic<std::uint64_t> busy_since_ns;  ///< since when `running` > 0; 0: it is not
};

/// The ways of a program's data; each device has a queue for each.
enum class Way : std::uint8_t { kUpload, kDownload };
inline constexpr unsigned kCopyQueuesMax = 2 * kDevicesMax;
constexpr unsigned copy_queue(Way way, unsigned device) {
  return (way == Way::kUpload ? 0 : kDevicesMax) + device;
}
/// What a session is allowed to move at a time while others move data the same way.
inline constexpr std::uint64_t kCopyQuantumBytes = 1024 * 1024;

/// Written by the broker. A session begins copies while they are fewer bytes in all than it is
/// allowed, or while nobody else uses that way.
struct alignas(64) CopyGrant {
  std::atomic<std::uint64_t> free_until_ns;    ///< on CLOCK_MONOTONIC; nobody else till then
  std::atomic<std::uint64_t> allowance_bytes;  ///< since the session began
};

/// Written by the worker.
struct alignas(64) CopyUse {
  std::atomic<std::uint64_t> moved_bytes;   ///< since the session began
  std::atomic<std::uint64_t> wanted_bytes;  ///< an allowance of so much would be used now
};

struct Grants {
  Grant devices[kDevicesMax];
  CopyGrant copies[kCopyQueuesMax];
  std::atomic<std::uint32_t> copy_changes;  ///< a futex: grows when an allowance does
};
struct Uses {
  Use devices[kDevicesMax];
  CopyUse copies[kCopyQueuesMax];
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free &&
              std::atomic<std::uint32_t>::is_always_lock_free);

/// A mapping of one page, and its descriptor.
template <class T>
class Mapped {
 public:
  Mapped() = default;
  Mapped(Fd fd, T* page) : fd_(std::move(fd)), page_(page) {}
  ~Mapped();
  Mapped(Mapped&& other) noexcept : fd_(std::move(other.fd_)), page_(other.page_) {
    other.page_ = nullptr;
  }
  Mapped& operator=(Mapped&& other) noexcept {
    std::swap(fd_, other.fd_);
    std::swap(page_, other.page_);
    return *this;
  }
  [[nodiscard]] T* get() const { return page_; }
  T* operator->() const { return page_; }
  [[nodiscard]] int fd() const { return fd_.get(); }

 private:
  Fd fd_;
  T* page_ = nullptr;
};

/// The broker's: writable here, and for nobody who gets the descriptor.
Result<Mapped<Grants>> make_grants();
/// The broker's view of a page that its worker writes.
Result<Mapped<Uses>> make_uses();
/// The worker's ends.
Result<Mapped<const Grants>> map_grants(Fd fd);
Result<Mapped<Uses>> map_uses(Fd fd);

/// CLOCK_MONOTONIC.
[[nodiscard]] std::uint64_t now_ns();
/// Sleeps while the word has that value, at most so long.
void sleep_while(const std::atomic<std::uint32_t>& word, std::uint32_t value,
                 std::uint64_t patience_ns);
void wake_all(std::atomic<std::uint32_t>& word);

}  // namespace sluice::server::turns
