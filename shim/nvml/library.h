// What the functions of our libnvidia-ml.so.1 stand on: one connection to the broker, over which
// the tenant's slice is looked at. No session, no worker, no thread: every question of a moment is
// a question to the server at that moment, so that what NVML says agrees with what CUDA says.
#pragma once

#include "common/result.h"
#include "protocol/slice_status.h"
#include "shim/nvml/api.h"
#include "transport/stream/byte_stream.h"

#include <chrono>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>

namespace sluice::nvml {

using Snapshot = std::shared_ptr<const wire::SliceStatus>;

/// Thread-safe. A forked child has one of its own, with a connection of its own.
class Library {
 public:
  static Library& of_process() noexcept;

  /// nvmlInit: counted; the first connects.
  Return start();
  /// nvmlShutdown: the last disconnects.
  Return stop();
  [[nodiscard]] bool is_started();
  /// Who the devices are: asked once for each connection.
  Return identity(Snapshot* out);
  /// The figures of this moment.
  Return figures(Snapshot* out);

  static Device handle_of(std::size_t index) noexcept;
  /// Nothing: it is no handle of ours.
  static std::optional<std::size_t> index_of(Device device) noexcept;

 private:
  using Clock = std::chrono::steady_clock;
  explicit Library(unsigned starts) : starts_(starts) {}
  static void make_one_for_child() noexcept;

  Return ensure();
  Result<Snapshot> connect();
  Result<Snapshot> ask(bool wants_identity, std::chrono::milliseconds time);
  Return lose(const Error& error);

  std::mutex mutex_;
  unsigned starts_ = 0;
  std::unique_ptr<transport::ByteStream> stream_;
  Snapshot identity_;  ///< of the first connection: later ones must show the same devices
  Clock::time_point retry_at_{};
  bool is_lost_ = false;      ///< and that was logged
  std::string last_failure_;  ///< of start(): programs that try again and again get one line
};

/// The body of a function of the C interface: nothing is thrown into a caller.
template <class Body>
Return guarded(Body body) noexcept {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return kMemory;
  } catch (...) {
    return kUnknown;
  }
}

/// `body(device)` with the identity of the device that the handle stands for.
template <class Body>
Return with_identity(Device handle, Body body) noexcept {
  return guarded([&]() -> Return {
    Snapshot status;
    if (const Return failed = Library::of_process().identity(&status)) return failed;
    const auto index = Library::index_of(handle);
    if (!index || *index >= status->devices.size()) return kInvalidArgument;
    return body(status->devices[*index]);
  });
}

/// `body(status, index)` with the figures of this moment.
template <class Body>
Return with_figures(Device handle, Body body) noexcept {
  return guarded([&]() -> Return {
    Snapshot status;
    if (const Return failed = Library::of_process().figures(&status)) return failed;
    const auto index = Library::index_of(handle);
    if (!index || *index >= status->devices.size()) return kInvalidArgument;
    return body(*status, *index);
  });
}

}  // namespace sluice::nvml
