// A driver whose streams finish when a test says so, and that remembers what it was asked. One at a
// time: the table's functions find it through a global.
#pragma once

#include "driver/driver_table.h"

#include <cuda.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace sluice::test {

/// Thread-safe, but for the members that a test sets before it starts a worker.
class FakeDriver {
 public:
  static constexpr std::size_t kDeviceBytes = 64 << 20;

  FakeDriver() {
    self = this;
    fill();
  }
  ~FakeDriver() {
    join();
    self = nullptr;
  }
  FakeDriver(const FakeDriver&) = delete;
  FakeDriver& operator=(const FakeDriver&) = delete;

  DriverTable table;

  // ---- set before the worker runs
  std::function<CUresult()> on_launch = [] { return CUDA_SUCCESS; };
  /// Asked with the stream of the event, before the answer is made.
  std::function<void(CUstream)> on_query = [](CUstream) {};
  /// Of an event of what has finished: it is not done yet all the same.
  std::function<bool(CUevent)> is_late = [](CUevent) { return false; };
  std::function<CUresult(const void*, unsigned, CUjit_option*, void**)> on_load =
      [](const void*, unsigned, CUjit_option*, void**) { return CUDA_SUCCESS; };
  std::vector<std::pair<std::size_t, std::size_t>> layout = {{0, 8}, {8, 4}};
  std::size_t alloc_bytes_max = kDeviceBytes;
  CUresult register_result = CUDA_SUCCESS;
  /// What the driver has for itself: a test adds what a module or a library takes.
  std::atomic<std::size_t> taken_bytes{0};
  std::size_t context_bytes = 0;  ///< what a context takes when it is made

  // ---- the device
  /// What is issued in the streams from here on stays unfinished.
  void hold() {
    const std::lock_guard lock(mutex_);
    is_held_ = true;
  }
  /// Everything issued in the stream has finished / in all streams, from here on at once.
  void finish(CUstream stream) {
    const std::lock_guard lock(mutex_);
    streams_[stream].finished = streams_[stream].issued;
  }
  void finish_all() {
    const std::lock_guard lock(mutex_);
    is_held_ = false;
    for (auto& [stream, state] : streams_) state.finished = state.issued;
  }
  /// From here on every query meets this error.
  void fail(CUresult error) {
    const std::lock_guard lock(mutex_);
    error_ = error;
  }
  void join() {
    std::vector<std::thread> threads;
    {
      const std::lock_guard lock(mutex_);
      threads.swap(threads_);
    }
    for (std::thread& thread : threads) thread.join();
  }

  /// As the driver counts them for this process.
  std::uint64_t process_bytes() {
    const std::lock_guard lock(mutex_);
    return used_ + taken_bytes;
  }

  // ---- what it was asked: "alloc", "free", "stream_destroy", "context_destroy", "launch" ...
  std::vector<std::string> log() {
    const std::lock_guard lock(mutex_);
    return log_;
  }
  std::size_t count(const std::string& what) {
    const std::lock_guard lock(mutex_);
    return static_cast<std::size_t>(std::count(log_.begin(), log_.end(), what));
  }
  /// Those created, in order.
  std::vector<CUstream> streams() {
    const std::lock_guard lock(mutex_);
    return created_;
  }
  std::vector<CUevent> events() {
    const std::lock_guard lock(mutex_);
    return created_events_;
  }
  /// From where the last upload was read, and where the last download went.
  const void* copied_from() {
    const std::lock_guard lock(mutex_);
    return copied_from_;
  }
  void* copied_to() {
    const std::lock_guard lock(mutex_);
    return copied_to_;
  }
  std::vector<std::byte> launched_params() {
    const std::lock_guard lock(mutex_);
    return params_;
  }

 private:
  struct Stream {
    std::uint64_t issued = 0, finished = 0;
  };
  struct Event {
    CUstream stream = nullptr;
    std::uint64_t at = 0;
  };

  template <class Handle>
  Handle next() {
    return (Handle)(last_ += 64);  // a pointer or a number
  }
  void issue(CUstream stream) {
    Stream& state = streams_[stream];
    ++state.issued;
    if (!is_held_) state.finished = state.issued;
  }
  void note(const char* what) { log_.emplace_back(what); }
  void fill();
  void fill_contexts();
  void fill_streams();
  void fill_modules();

  static inline FakeDriver* self = nullptr;
  std::mutex mutex_;
  bool is_held_ = false;
  CUresult error_ = CUDA_SUCCESS;
  std::uintptr_t last_ = 0x1000;
  std::map<CUstream, Stream> streams_;
  std::map<CUevent, Event> events_;
  std::map<CUdeviceptr, std::size_t> memory_;
  std::size_t used_ = 0;
  std::vector<std::unique_ptr<std::byte[]>> host_;
  CUcontext primary_ = nullptr;
  unsigned primary_retains_ = 0;
  std::vector<std::byte> params_;
  const void* copied_from_ = nullptr;
  void* copied_to_ = nullptr;
  std::vector<std::string> log_;
  std::vector<CUstream> created_;
  std::vector<CUevent> created_events_;
  std::vector<std::thread> threads_;
};

}  // namespace sluice::test
