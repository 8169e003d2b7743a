// What kernels print. softgpu hands the text over by a sink; a genuine driver writes it to the
// process's stdout, which in a worker is a file in memory. Either way it goes to the client before
// the news of the work that printed it.
#pragma once

#include "common/fd.h"
#include "server/worker/outbox.h"

#include <mutex>
#include <string>

namespace sluice::server {

/// Thread-safe.
class DeviceOutput {
 public:
  explicit DeviceOutput(Outbox& outbox) : outbox_(outbox) {}
  ~DeviceOutput();

  /// Takes the text from the driver that was loaded from `driver_path`; false if that has no sink
  /// for it.
  bool take_from_sink(const std::string& driver_path);
  /// Takes what anything in this process writes to stdout from now on.
  Status take_stdout();
  void add(const char* text, std::size_t bytes);
  /// Sends what there is.
  void send();

 private:
  using SetSink = void (*)(void (*)(const char*, std::size_t, void*), void*);
  void read_file();

  Outbox& outbox_;
  std::mutex mutex_;
  std::string text_;
  Fd file_;
  off_t read_bytes_ = 0;
  SetSink set_sink_ = nullptr;
};

}  // namespace sluice::server
