// What the shim keeps about the objects whose state the application may ask for without a round
// trip.
#pragma once

#include "shim/futex.h"

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace sluice::shim {

struct Context;
struct Capture;

/// Pooled and never freed: a thread that still waits on a stream which another thread destroys must
/// find memory. Guarded by mutex but for the atomics.
struct Stream {
  std::uint64_t id = 0;      ///< 0 = the legacy stream
  std::uint64_t serial = 0;  ///< cuStreamGetId
  Context* context = nullptr;
  std::uint32_t context_id = 0;  ///< the life of the (primary) context that it belongs to
  CUstream handle = nullptr;
  unsigned flags = 0;
  int priority = 0;
  std::atomic<std::uint64_t> uses{
      0};  ///< calls that named it: tells whether a marker is still the last command
  std::atomic<bool> is_capturing{false};  ///< as Captures knows it

  std::mutex mutex;
  std::uint64_t marker = 0;       ///< number of the marker under way, 0 = none
  std::uint64_t marker_uses = 0;  ///< uses when it was posted
  std::uint64_t done_uses = 0;    ///< uses that are known to have completed
  CUresult done_result = CUDA_SUCCESS;
  bool is_told = true;                        ///< the program knows that these have
  std::uint64_t waits_seen = 0;               ///< waits of the session when it was last queried
  std::vector<std::uint64_t> host_functions;  ///< tokens of those that precede its next command
};

/// Pooled and never freed, like Stream; versions grow through all its lives, so that a waiter
/// always gets away.
struct Event {
  std::uint64_t id = 0;
  Context* context = nullptr;
  std::mutex mutex;  ///< numbering a record and posting it are one step
  std::atomic<std::uint64_t> version{0};
  std::atomic<std::uint64_t> done_version{0};
  std::atomic<std::uint64_t> record_seq{0};  ///< number of the latest event_record
  std::atomic<int> result{CUDA_SUCCESS};
  std::vector<std::uint64_t> host_functions;  ///< tokens of those that precede its record
  std::atomic<bool> is_recorded{false};       ///< in this life
  std::atomic<bool> is_captured{false};       ///< its latest record is part of a capture
  std::shared_ptr<Capture> capture;  ///< which, and behind which nodes; guarded by Captures
  std::vector<std::uint32_t> capture_nodes;
};

struct Context {
  std::uint64_t serial = 0;  ///< cuCtxGetId; owner of its handles
  std::atomic<std::uint32_t> wire_id{0};
  CUcontext handle = nullptr;
  int device = 0;
  unsigned flags = 0;
  bool is_primary = false;
  int retained = 0;  ///< of a primary context; guarded by Contexts
  std::atomic<bool> is_alive{false};
  std::atomic<int> sticky{CUDA_SUCCESS};
  std::atomic<int> blocking_captures{0};        ///< blocking streams that capture
  std::atomic<std::uint64_t> blocking_uses{0};  ///< of the legacy stream and all that it waits for
  Stream legacy;
  std::vector<std::uint64_t>
      blocking_functions;  ///< host functions of its blocking streams; guarded by legacy.mutex
};

struct ParamInfo {
  std::uint32_t offset = 0;
  std::uint32_t size = 0;
};

/// A function of a module or a kernel of a library: immutable after creation but for the
/// attributes.
/// By CUfunction_attribute, INT32_MIN = refused. A kernel's functions have it in common with the
/// kernel: what is set for one holds when the other is launched.
struct CallableAttributes {
  std::mutex mutex;
  std::vector<int> values;
};

struct Callable {
  std::uint64_t id = 0;
  std::string name;
  Context* context = nullptr;  ///< of a function
  CUmodule module = nullptr;
  CUlibrary library = nullptr;
  bool is_kernel = false;
  std::vector<ParamInfo> layout;
  std::size_t params_bytes = 0;
  std::shared_ptr<CallableAttributes> attributes = std::make_shared<CallableAttributes>();

  /// False if the driver gave no value.
  bool attribute(int which, int* value) {
    std::lock_guard lock(attributes->mutex);
    if (which < 0 || static_cast<std::size_t>(which) >= attributes->values.size()) return false;
    *value = attributes->values[static_cast<std::size_t>(which)];
    return *value != INT32_MIN;
  }
};

/// A module or a library: finds its functions by name once.
struct Image {
  std::uint64_t id = 0;
  std::mutex mutex;
  std::unordered_map<std::string, std::uint64_t> callables;  ///< name -> application handle
  std::vector<CUdeviceptr> globals;                          ///< in the address map on its account
  std::map<std::pair<std::uint64_t, std::uint64_t>, CUfunction>
      functions;                                        ///< by context serial and kernel id
  std::unordered_map<std::uint64_t, CUmodule> modules;  ///< of a library, per context serial
};

/// Physical memory (cuMemCreate).
struct MemoryBlock {
  std::uint64_t id = 0;
  CUmemAllocationProp properties{};
  std::atomic<int> references{1};
};

/// The memory pools of a device that have no creator.
struct DevicePools {
  std::mutex mutex;
  CUmemoryPool standard = nullptr;  ///< once it was asked for
  CUmemoryPool current = nullptr;   ///< null: the default pool
};

/// Objects that are used again and live as long as the pool. Thread-safe.
template <class T>
class Pool {
 public:
  T* take() {
    std::lock_guard lock(mutex_);
    if (free_.empty()) return all_.emplace_back(std::make_unique<T>()).get();
    T* object = free_.back();
    free_.pop_back();
    return object;
  }
  void give_back(T* object) {
    std::lock_guard lock(mutex_);
    free_.push_back(object);
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<T>> all_;
  std::vector<T*> free_;
};

}  // namespace sluice::shim
