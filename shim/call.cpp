// The functions of call.h that carry calls, and the special streams.
#include "shim/call.h"

#include "common/log.h"
#include "protocol/stream.h"
#include "shim/process.h"

#include <mutex>
#include <set>
#include <string>

namespace sluice::shim {
namespace {

Pool<Stream>& streams() {
  static Pool<Stream>* const pool = new Pool<Stream>;
  return *pool;
}
Pool<Event>& events() {
  static Pool<Event>* const pool = new Pool<Event>;
  return *pool;
}

void report_unsupported(const char* name) {
  static std::mutex mutex;
  static std::set<std::string>* const reported = new std::set<std::string>;
  std::lock_guard lock(mutex);
  if (reported->insert(name).second)
    SLUICE_LOG_WARN("shim", "{} is not supported; it returns CUDA_ERROR_NOT_SUPPORTED.", name);
}

std::size_t payload_bytes(Bytes fixed, std::initializer_list<Bytes> blobs) {
  std::size_t bytes = fixed.size();
  for (const Bytes& blob : blobs) bytes += blob.size();
  return bytes;
}

CUresult traced(wire::Opcode opcode, CUresult result) {
  if (log_enabled(LogLevel::kTrace))
    SLUICE_LOG_TRACE("shim", "{} -> {} ({})", wire::fn_name(thread_state().fn),
                     static_cast<int>(result), wire::opcode_name(opcode));
  return result;
}

/// CU_STREAM_PER_THREAD of the current context: made on first use, ended with the thread.
CUresult own_stream(Stream** stream) {
  Context* context = current_context();
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  ThreadState& thread = thread_state();
  for (Stream* own : thread.own_streams) {
    if (own->context == context && own->context_id == context->wire_id.load()) {
      *stream = own;
      return CUDA_SUCCESS;
    }
  }
  wire::stream_create args{};
  args.stream = reserve_id();
  if (const CUresult failed = post(args)) return failed;
  *stream = make_stream(args.stream, CU_STREAM_DEFAULT, 0);
  (*stream)->handle = CU_STREAM_PER_THREAD;
  thread.own_streams.push_back(*stream);
  return CUDA_SUCCESS;
}

}  // namespace

namespace detail {

CUresult post_record(wire::Opcode opcode, Bytes fixed,
                     std::initializer_list<Bytes> blobs) noexcept {
  count_bytes(payload_bytes(fixed, blobs));
  const CUresult result = session().pipeline().post(
      {.opcode = opcode, .context = current_context_id(), .fixed = fixed, .blobs = blobs});
  return traced(opcode, result);
}

CUresult call_record(wire::Opcode opcode, Bytes fixed, std::initializer_list<Bytes> blobs,
                     const ReplyShape& reply, std::initializer_list<OutBytes> out,
                     std::atomic<std::uint64_t>* seq) noexcept {
  Session& current = session();
  const WaitScope waiting;
  count_bytes(payload_bytes(fixed, blobs));
  const std::uint32_t context = current_context_id();
  const CUresult result = current.pipeline().call(
      {.opcode = opcode, .context = context, .fixed = fixed, .blobs = blobs, .seq = seq}, reply,
      out);
  if (is_sticky(result) && result != kSessionLost) current.note_failure(result, context);
  return traced(opcode, result);
}

}  // namespace detail

CUresult unsupported(wire::Fn fn) noexcept {
  report_unsupported(wire::fn_name(fn));
  return CUDA_ERROR_NOT_SUPPORTED;
}

std::uint64_t reserve_id() noexcept {
  static constinit std::atomic<std::uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

PerThreadDefaultStream::PerThreadDefaultStream() noexcept {
  ++thread_state().per_thread_depth;
}
PerThreadDefaultStream::~PerThreadDefaultStream() {
  --thread_state().per_thread_depth;
}

Stream* make_stream(std::uint64_t id, unsigned flags, int priority) {
  static std::atomic<std::uint64_t> last_serial{1};
  Stream* stream = streams().take();
  std::lock_guard lock(stream->mutex);
  stream->id = id;
  stream->serial = ++last_serial;
  stream->context = current_context();
  stream->context_id = current_context_id();
  stream->flags = flags;
  stream->priority = priority;
  stream->uses = 0;
  stream->done_uses = 0;
  stream->done_result = CUDA_SUCCESS;
  stream->is_told = true;
  stream->host_functions.clear();
  return stream;
}

void free_stream(Stream& stream) {
  session().captures().forget(stream);
  session().completions().remove_stream(stream);
  stream.id = 0;
  streams().give_back(&stream);
}

void release_own_stream(Stream& stream) noexcept {
  if (stream.context->is_alive.load() && stream.context_id == stream.context->wire_id.load()) {
    wire::cuStreamDestroy_v2 args{};
    args.hStream = stream.id;
    session().pipeline().post({.opcode = args.kOpcode,
                               .context = stream.context->wire_id.load(),
                               .fixed = detail::as_bytes(args),
                               .blobs = {}});
  }
  free_stream(stream);
}

Event* make_event(std::uint64_t id) {
  Event* event = events().take();
  event->id = id;
  event->context = current_context();
  // Versions go on from the object's last life, which is complete.
  event->done_version = event->version.load();
  event->result = CUDA_SUCCESS;
  event->host_functions.clear();
  event->is_recorded = false;
  event->is_captured = false;
  event->capture = nullptr;
  event->capture_nodes.clear();
  session().completions().add_event(*event);
  return event;
}

void drop_object(Kind kind, const Entry& entry) {
  if (entry.object == nullptr) return;
  switch (kind) {
    case Kind::kStream:
      free_stream(*static_cast<Stream*>(entry.object));
      break;
    case Kind::kEvent: {
      auto* event = static_cast<Event*>(entry.object);
      session().completions().remove_event(*event);
      events().give_back(event);
      break;
    }
    case Kind::kFunction:
    case Kind::kKernel:
      delete static_cast<Callable*>(entry.object);
      break;
    case Kind::kModule:
    case Kind::kLibrary:
      delete static_cast<Image*>(entry.object);
      break;
    case Kind::kGraph:
      delete static_cast<std::shared_ptr<Graph>*>(entry.object);
      session().graphs().free_dropped();
      break;
    case Kind::kPool:
      delete static_cast<std::shared_ptr<MemoryPool>*>(entry.object);
      break;
    case Kind::kMemoryBlock:
      delete static_cast<std::shared_ptr<MemoryBlock>*>(entry.object);
      break;
    case Kind::kGraphExec:
      delete static_cast<std::shared_ptr<GraphExec>*>(entry.object);
      session().graphs().free_dropped();
      break;
    default:
      break;  // contexts live as long as the session; the other kinds have no object
  }
}

CUresult find_stream(CUstream handle, Stream** stream) noexcept {
  const bool is_default = handle == nullptr;
  if (handle == CU_STREAM_PER_THREAD || (is_default && thread_state().per_thread_depth > 0))
    return own_stream(stream);
  if (is_default || handle == CU_STREAM_LEGACY) {
    Context* context = current_context();
    if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    *stream = &context->legacy;
    return CUDA_SUCCESS;
  }
  *stream = object_of<Stream>(handle);
  return *stream != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

namespace {
void count_use(Stream& used) noexcept {
  if (used.id != 0) used.uses.fetch_add(1);
  if ((used.flags & CU_STREAM_NON_BLOCKING) == 0) used.context->blocking_uses.fetch_add(1);
}
}  // namespace

CUresult use_stream(CUstream handle, Stream** stream) noexcept {
  if (const CUresult bad = find_stream(handle, stream)) return bad;
  if (const CUresult bad = session().captures().add_node(**stream)) return bad;
  if (const CUresult lost = session().shadows().upload()) return lost;
  count_use(**stream);
  return CUDA_SUCCESS;
}

CUresult use_stream_for_event(CUstream handle, Stream** stream) noexcept {
  if (const CUresult bad = find_stream(handle, stream)) return bad;
  if (const CUresult bad = session().captures().check(**stream)) return bad;
  count_use(**stream);
  return CUDA_SUCCESS;
}

template <class Handle>
CUresult to_wire(Handle handle, std::uint64_t* id) noexcept {
  static_assert(kKindOf<Handle> != Kind::kNone);
  if constexpr (std::is_same_v<Handle, CUstream>) {
    Stream* stream = nullptr;
    if (const CUresult bad = use_stream(handle, &stream)) return bad;
    *id = stream->id;
    return CUDA_SUCCESS;
  } else {
    *id = 0;
    if (handle == nullptr) return CUDA_SUCCESS;
    Entry entry;
    if (!handles().find(kKindOf<Handle>, handle_bits(handle), &entry))
      return std::is_same_v<Handle, CUcontext> ? CUDA_ERROR_INVALID_CONTEXT
                                               : CUDA_ERROR_INVALID_HANDLE;
    *id = std::is_same_v<Handle, CUcontext> ? static_cast<Context*>(entry.object)->wire_id.load()
                                            : entry.id;
    return CUDA_SUCCESS;
  }
}

template <class Handle>
Handle publish(std::uint64_t id) noexcept {
  constexpr Kind kKind = kKindOf<Handle>;
  static_assert(kKind != Kind::kNone);
  const Context* context = current_context();
  Entry entry;
  entry.id = id;
  if (kKind != Kind::kGraph && kKind != Kind::kGraphExec && kKind != Kind::kGraphNode &&
      kKind != Kind::kLibrary && kKind != Kind::kKernel && kKind != Kind::kPool &&
      context != nullptr)
    entry.owner = context->serial;
  if (kKind == Kind::kStream) entry.object = make_stream(id, CU_STREAM_NON_BLOCKING, 0);
  if (kKind == Kind::kEvent) entry.object = make_event(id);
  const auto handle = new_handle<Handle>(entry);
  if (kKind == Kind::kStream)
    static_cast<Stream*>(entry.object)->handle = reinterpret_cast<CUstream>(handle);
  return handle;
}

template <class Handle>
void retire(Handle handle) noexcept {
  Entry entry;
  if (handles().remove(kKindOf<Handle>, handle_bits(handle), &entry))
    drop_object(kKindOf<Handle>, entry);
}

#define SLUICE_HANDLE(type)                                       \
  template CUresult to_wire<type>(type, std::uint64_t*) noexcept; \
  template type publish<type>(std::uint64_t) noexcept;            \
  template void retire<type>(type) noexcept;
SLUICE_HANDLE(CUcontext)
SLUICE_HANDLE(CUstream)
SLUICE_HANDLE(CUevent)
SLUICE_HANDLE(CUmodule)
SLUICE_HANDLE(CUlibrary)
SLUICE_HANDLE(CUkernel)
SLUICE_HANDLE(CUfunction)
SLUICE_HANDLE(CUgraph)
SLUICE_HANDLE(CUgraphNode)
SLUICE_HANDLE(CUgraphExec)
SLUICE_HANDLE(CUmemoryPool)
SLUICE_HANDLE(CUarray)
SLUICE_HANDLE(CUmipmappedArray)
SLUICE_HANDLE(CUtexref)
SLUICE_HANDLE(CUsurfref)
SLUICE_HANDLE(CUlinkState)
SLUICE_HANDLE(CUgreenCtx)
SLUICE_HANDLE(CUuserObject)
SLUICE_HANDLE(CUexternalMemory)
SLUICE_HANDLE(CUexternalSemaphore)
SLUICE_HANDLE(CUgraphicsResource)
#undef SLUICE_HANDLE

}  // namespace sluice::shim

namespace sluice {

/// For names that nothing implements (the generated fallbacks).
int unsupported_function(const char* name) noexcept;
int unsupported_function(const char* name) noexcept {
  shim::report_unsupported(name);
  return CUDA_ERROR_NOT_SUPPORTED;
}

}  // namespace sluice
