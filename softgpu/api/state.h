// The objects behind the driver API's handles, and what every entry point starts with.
//
// Lock order: Context::mutex, then the scheduler's own. Handles are addresses of live objects;
// every use is looked up, so a stale or foreign one is CUDA_ERROR_INVALID_HANDLE and not a crash.
#pragma once

#include "softgpu/api/scheduler.h"
#include "softgpu/exec/program.h"
#include "softgpu/exec/services.h"
#include "softgpu/memory/address_space.h"
#include "softgpu/memory/arena.h"

#include <cuda.h>

#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace sluice::softgpu {

struct Context;
struct Executable;
struct Node;
class Graph;
class MemoryPool;

struct Device {
  int ordinal = 0;
  CUuuid uuid{};
  std::unique_ptr<Arena> arena;
  std::mutex mutex;
  std::shared_ptr<Context> primary;  ///< exists while retained
  unsigned primary_count = 0, primary_flags = 0;
  CUmemoryPool default_pool = nullptr, pool = nullptr;
};

/// One capture sequence; shared by the streams that take part in it.
struct Capture {
  std::shared_ptr<Graph> graph;
  struct Stream* origin = nullptr;
  CUstreamCaptureMode mode{};
  std::uint64_t id = 0;
  std::uint64_t thread = 0;  ///< that began it
  std::atomic<bool> is_invalid{false};
  bool is_ended = false;
  bool is_own_graph = true;  ///< else the program gave one to capture into
  std::vector<std::weak_ptr<struct Stream>> members;
  std::vector<Node*> abandoned;  ///< tails of members that were destroyed
};

/// Launches of a stream that have not run yet.
struct LaunchQueue {
  std::mutex mutex;
  std::condition_variable changed;
  unsigned length = 0;
};

struct Stream {
  std::shared_ptr<Context> context;
  unsigned flags = 0;
  int priority = 0;
  std::uint64_t id = 0;
  std::shared_ptr<LaunchQueue> queue;  ///< strict mode only
  OperationPtr last;                   ///< guarded by Context::mutex, as all below
  std::shared_ptr<Capture> capture;
  std::vector<Node*> tail;  ///< while capturing: what its next node comes behind
  [[nodiscard]] bool is_blocking() const { return (flags & CU_STREAM_NON_BLOCKING) == 0; }
};

struct Event {
  std::shared_ptr<Context> context;
  unsigned flags = 0;
  OperationPtr recorded;              ///< guarded by Context::mutex
  std::shared_ptr<Capture> captured;  ///< recorded inside a capture
  std::vector<Node*> tail;            ///< Stream::tail at the record
};

struct LoadedModule;

struct Kernel {
  std::shared_ptr<LoadedModule> module;
  std::size_t index = 0;
  std::atomic<int> max_dynamic_shared_bytes{48 * 1024};
  std::atomic<int> shared_carveout{-1};  ///< as it was set
  [[nodiscard]] const KernelInfo& info() const;
};

struct LoadedModule : std::enable_shared_from_this<LoadedModule> {
  ~LoadedModule();
  Device* device = nullptr;
  void* owner = nullptr;                   ///< the context of a module, null for a library
  std::atomic<std::size_t> code_bytes{0};  ///< charged at the first launch (strict mode)
  std::unique_ptr<Program> program;
  struct Address {
    std::uint64_t at;
    std::size_t bytes;
  };
  std::map<std::string, Address> globals;
  std::mutex mutex;                             ///< guards functions
  std::map<std::string, CUfunction> functions;  ///< handles given out; the registry has the objects
};
inline const KernelInfo& Kernel::info() const {
  return module->program->kernels()[index];
}

struct Context {
  Device* device = nullptr;
  unsigned flags = 0;
  bool is_primary = false;
  std::uint64_t id = 0;
  std::atomic<CUresult> sticky{CUDA_SUCCESS};
  std::atomic<bool> is_dead{false};
  /// True ends running kernels, however endless they are. Shared with recorded graphs.
  const std::shared_ptr<std::atomic<bool>> is_cancelled =
      std::make_shared<std::atomic<bool>>(false);
  const std::shared_ptr<KernelServices> services = std::make_shared<KernelServices>();
  std::mutex mutex;
  std::shared_ptr<Stream> legacy;
  std::vector<std::weak_ptr<Stream>> streams;
  std::map<std::uint64_t, std::shared_ptr<Stream>> per_thread;  ///< by thread number
  std::map<int, std::size_t> limits;
  std::size_t overhead_bytes = 0;  ///< charged beside what the program allocated (strict mode)
  bool has_launched = false;
};

/// Live objects of one handle type.
template <class Handle, class Object>
class Registry {
 public:
  Handle add(std::shared_ptr<Object> object) {
    const std::lock_guard lock(mutex_);
    const auto handle = reinterpret_cast<Handle>(object.get());
    objects_[object.get()] = std::move(object);
    return handle;
  }
  std::shared_ptr<Object> find(const void* handle) {
    const std::lock_guard lock(mutex_);
    const auto found = objects_.find(handle);
    return found == objects_.end() ? nullptr : found->second;
  }
  std::shared_ptr<Object> remove(const void* handle) {
    const std::lock_guard lock(mutex_);
    const auto found = objects_.find(handle);
    if (found == objects_.end()) return nullptr;
    auto object = std::move(found->second);
    objects_.erase(found);
    return object;
  }
  std::vector<std::shared_ptr<Object>> all() {
    const std::lock_guard lock(mutex_);
    std::vector<std::shared_ptr<Object>> out;
    for (const auto& [key, object] : objects_) out.push_back(object);
    return out;
  }
  template <class Predicate>
  void remove_if(const Predicate& is_wanted) {
    std::vector<std::shared_ptr<Object>>
        gone;  // dies without the lock: destructors may come back here
    const std::lock_guard lock(mutex_);
    for (auto it = objects_.begin(); it != objects_.end();) {
      if (!is_wanted(*it->second)) {
        ++it;
        continue;
      }
      gone.push_back(std::move(it->second));
      it = objects_.erase(it);
    }
  }

 private:
  std::mutex mutex_;
  std::unordered_map<const void*, std::shared_ptr<Object>> objects_;
};

struct HostRange {
  std::size_t bytes = 0;
  unsigned flags = 0;
  bool is_ours = false;  ///< allocated by cuMemHostAlloc, else registered
};

/// The process's state; leaked on purpose.
struct State {
  std::vector<std::unique_ptr<Device>> devices;
  Registry<CUcontext, Context> contexts;
  Registry<CUstream, Stream> streams;
  Registry<CUevent, Event> events;
  Registry<CUmodule, LoadedModule> modules;
  Registry<CUlibrary, LoadedModule> libraries;
  Registry<CUfunction, Kernel> kernels;
  Registry<CUgraph, Graph> graphs;
  Registry<CUgraphNode, Node> nodes;
  Registry<CUgraphExec, Executable> executables;
  Registry<CUmemoryPool, MemoryPool> pools;
  AddressSpace addresses;
  std::mutex host_mutex;
  std::map<std::uint64_t, HostRange> host_ranges;
  std::atomic<std::uint64_t> next_id{1};
};

State& state();
/// CUDA_SUCCESS once cuInit has succeeded in this process (not in a forked child).
CUresult initialised();
/// The calling thread's context; INVALID_CONTEXT without one, its sticky error if it has one.
CUresult current(std::shared_ptr<Context>* out);
std::vector<CUcontext>& context_stack();
std::uint64_t thread_number();  ///< of the calling thread, from 1
Device* device_of(CUdevice device);
/// The number by which the program knows the device (CUDA_VISIBLE_DEVICES renumbers).
CUdevice ordinal_of(const Device* device);

/// Strict mode: INVALID_CONTEXT without a current context, INVALID_HANDLE for an object of another
/// one (null: the object belongs to no context).
CUresult check_owner(const void* owner);
/// Stream of a handle: 0 = legacy (or the thread's own under PerThreadDefaultStream),
/// CU_STREAM_PER_THREAD.
CUresult stream_of(CUstream handle, std::shared_ptr<Stream>* out);
/// The same for copies, which CUDA takes for a stream of any context.
CUresult stream_of_any_context(CUstream handle, std::shared_ptr<Stream>* out);
/// Puts work into the stream that no graph can hold (submit_work takes the rest). A result of 700
/// and its kin makes the context's error sticky; after one, work that is not `always` is skipped.
CUresult submit(const std::shared_ptr<Stream>& stream, std::function<CUresult()> work,
                OperationPtr* out = nullptr, bool always = false);
/// Everything that the stream (or every stream of the context) must have finished.
std::vector<OperationPtr> pending(const std::shared_ptr<Stream>& stream);
std::vector<OperationPtr> pending(Context& context);
/// How long calls that take something away (unload, destroy) wait for kernels that may be endless.
inline constexpr std::chrono::seconds kPatience{2};
CUresult wait_all(Context& context, const std::vector<OperationPtr>& operations);
bool is_capturing(const std::shared_ptr<Stream>& stream);
/// For calls that a capturing stream cannot take: STREAM_CAPTURE_UNSUPPORTED, and the capture is
/// spoilt.
CUresult refuse_in_capture(const std::shared_ptr<Stream>& stream);
/// For calls that are potentially unsafe while any stream captures (cuMemAlloc, cuEventQuery): the
/// same, by the rules of the calling thread's capture mode.
CUresult refuse_unsafe_call();
/// The stream is about to be destroyed. Called with the context's mutex held.
void leave_capture(const std::shared_ptr<Stream>& stream);
std::shared_ptr<Stream> make_stream(const std::shared_ptr<Context>& context, unsigned flags,
                                    int priority);
/// Null: the device has no memory left for a context (strict mode charges for one).
std::shared_ptr<Context> make_context(Device* device, unsigned flags, bool is_primary);
void destroy_context(const std::shared_ptr<Context>& context);
/// How many blocks of a kernel the whole device holds at a time.
std::uint64_t resident_blocks(const Kernel& kernel, unsigned block_threads,
                              std::size_t dynamic_shared_bytes);
int device_attribute(const Device& device, CUdevice_attribute attribute, bool* is_known);

}  // namespace sluice::softgpu

#define SOFTGPU_API extern "C" __attribute__((visibility("default"))) CUresult CUDAAPI
#define SOFTGPU_CHECK(...)                                                      \
  do {                                                                          \
    if (const CUresult bad_ = (__VA_ARGS__); bad_ != CUDA_SUCCESS) return bad_; \
  } while (0)
