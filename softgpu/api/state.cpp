#include "softgpu/api/state.h"

#include "common/log.h"
#include "softgpu/api/memory_pool.h"
#include "softgpu/api/per_thread.h"
#include "softgpu/api/strict.h"

#include <algorithm>
#include <set>

namespace sluice::softgpu {
namespace {

thread_local int t_per_thread_depth = 0;

}  // namespace

std::uint64_t thread_number() {
  static std::atomic<std::uint64_t> next{1};
  thread_local const std::uint64_t number = next++;
  return number;
}

PerThreadDefaultStream::PerThreadDefaultStream() noexcept {
  ++t_per_thread_depth;
}
PerThreadDefaultStream::~PerThreadDefaultStream() {
  --t_per_thread_depth;
}
bool PerThreadDefaultStream::is_active() noexcept {
  return t_per_thread_depth > 0;
}

State& state() {
  static State* instance = new State;
  return *instance;
}

std::vector<CUcontext>& context_stack() {
  // Calls may come while thread-locals are being destroyed: such a call gets a stack that is
  // leaked.
  struct Owner {
    std::vector<CUcontext>** stack;
    ~Owner() {
      delete *stack;
      *stack = nullptr;
    }
  };
  thread_local std::vector<CUcontext>* stack = nullptr;
  thread_local const Owner owner{&stack};
  static_cast<void>(owner);
  if (stack == nullptr) stack = new std::vector<CUcontext>;
  return *stack;
}

Device* device_of(CUdevice device) {
  auto& devices = state().devices;
  return device >= 0 && static_cast<std::size_t>(device) < devices.size()
             ? devices[static_cast<std::size_t>(device)].get()
             : nullptr;
}

CUdevice ordinal_of(const Device* device) {
  const auto& devices = state().devices;
  for (std::size_t i = 0; i < devices.size(); ++i)
    if (devices[i].get() == device) return static_cast<CUdevice>(i);
  return CU_DEVICE_INVALID;
}

CUresult current(std::shared_ptr<Context>* out) {
  SOFTGPU_CHECK(initialised());
  auto& stack = context_stack();
  if (stack.empty() || stack.back() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  *out = state().contexts.find(stack.back());
  if (*out == nullptr || (*out)->is_dead) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  return (*out)->sticky;
}

CUresult check_owner(const void* owner) {
  if (!is_strict()) return CUDA_SUCCESS;
  std::shared_ptr<Context> context;
  const CUresult result = current(&context);
  if (context == nullptr) return result;  // a sick context may still clean up
  return owner == nullptr || owner == context.get() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult stream_of(CUstream handle, std::shared_ptr<Stream>* out) {
  SOFTGPU_CHECK(stream_of_any_context(handle, out));
  return check_owner((*out)->context.get());
}

CUresult stream_of_any_context(CUstream handle, std::shared_ptr<Stream>* out) {
  const bool is_default =
      handle == nullptr || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD;
  if (!is_default) {
    SOFTGPU_CHECK(initialised());
    *out = state().streams.find(handle);
    if (*out == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if ((*out)->context->is_dead) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    SOFTGPU_CHECK(check_owner(nullptr));
    return (*out)->context->sticky;
  }
  std::shared_ptr<Context> context;
  SOFTGPU_CHECK(current(&context));
  if (handle == CU_STREAM_PER_THREAD ||
      (handle == nullptr && PerThreadDefaultStream::is_active())) {
    const std::lock_guard lock(context->mutex);
    auto& own = context->per_thread[thread_number()];
    if (own == nullptr) {
      own = make_stream(context, 0, 0);
      context->streams.push_back(own);
    }
    *out = own;
  } else {
    *out = context->legacy;
  }
  return CUDA_SUCCESS;
}

std::shared_ptr<Stream> make_stream(const std::shared_ptr<Context>& context, unsigned flags,
                                    int priority) {
  auto stream = std::make_shared<Stream>();
  stream->context = context;
  stream->flags = flags;
  stream->priority = std::clamp(priority, -5, 0);
  stream->id = state().next_id++;
  if (is_strict()) stream->queue = std::make_shared<LaunchQueue>();
  return stream;
}

std::shared_ptr<Context> make_context(Device* device, unsigned flags, bool is_primary) {
  const std::size_t overhead_bytes = is_strict() ? kContextOverheadBytes : 0;
  if (overhead_bytes > 0 && !device->arena->account().charge(overhead_bytes)) return nullptr;
  auto context = std::make_shared<Context>();
  context->overhead_bytes = overhead_bytes;
  context->device = device;
  context->flags = flags;
  context->is_primary = is_primary;
  context->id = state().next_id++;
  context->legacy = make_stream(context, 0, 0);
  return context;
}

namespace {
/// What a context owned dies with it; a handle kept by the program is unknown from now on.
void forget_objects_of(Context& context) {
  State& s = state();
  const auto is_own = [&](const auto& object) { return object.context.get() == &context; };
  s.streams.remove_if(is_own);
  s.events.remove_if(is_own);
  const auto is_module_of = [&](const LoadedModule& module) { return module.owner == &context; };
  s.kernels.remove_if([&](const Kernel& kernel) { return is_module_of(*kernel.module); });
  s.modules.remove_if(is_module_of);
}
}  // namespace

void destroy_context(const std::shared_ptr<Context>& context) {
  const std::vector<OperationPtr> work = pending(*context);
  if (!wait_until(work, std::chrono::steady_clock::now() + kPatience)) {
    SLUICE_LOG_WARN("softgpu", "ending kernels that still run in a context being destroyed");
    *context->is_cancelled = true;
  }
  wait_all(*context, work);
  context->is_dead = true;
  {
    const std::lock_guard lock(context->mutex);
    for (const auto& weak : context->streams)
      if (const auto stream = weak.lock()) leave_capture(stream);
  }
  forget_objects_of(*context);
  context->device->arena->free_all(context.get());
  const std::lock_guard lock(context->mutex);
  context->device->arena->account().refund(std::exchange(context->overhead_bytes, 0));
  context->streams.clear();
  context->per_thread.clear();
  context->legacy->last = nullptr;
  context->legacy = nullptr;  // breaks the cycle of context and stream
}

}  // namespace sluice::softgpu

namespace sluice {

/// What the generated weak definitions of unimplemented functions return.
int unsupported_function(const char* name) noexcept {
  static std::mutex mutex;
  static auto* told = new std::set<std::string>;
  const std::lock_guard lock(mutex);
  if (told->insert(name).second)
    SLUICE_LOG_WARN("softgpu", "{} is not supported by the software GPU", name);
  return CUDA_ERROR_NOT_SUPPORTED;
}

}  // namespace sluice
