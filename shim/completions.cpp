#include "shim/completions.h"

#include "protocol/event.h"
#include "protocol/stream.h"
#include "shim/decode.h"

#include <utility>

namespace sluice::shim {

std::uint64_t uses_of(const Stream& stream) noexcept {
  return stream.id == 0 ? stream.context->blocking_uses.load() : stream.uses.load();
}

void Completions::add_event(Event& event) {
  std::lock_guard lock(mutex_);
  events_[event.id] = &event;
}

void Completions::remove_event(Event& event) {
  std::lock_guard lock(mutex_);
  events_.erase(event.id);
  const std::uint64_t version = event.version.load();
  if (event.done_version.exchange(version) < version) pipeline_.fulfilled();
}

CUresult Completions::record(Event& event, const Stream& stream, unsigned flags,
                             std::uint32_t context) {
  std::lock_guard lock(event.mutex);
  wire::event_record args{};
  args.event = event.id;
  args.stream = stream.id;
  args.flags = flags;
  {
    std::lock_guard table_lock(mutex_);
    const bool was_done = event.done_version.load() >= event.version.load();
    args.version = event.version.fetch_add(1) + 1;
    if (was_done) pipeline_.expect();
  }
  return pipeline_.post({.opcode = args.kOpcode,
                         .context = context,
                         .fixed = detail::as_bytes(args),
                         .blobs = {},
                         .seq = &event.record_seq});
}

void Completions::ask_server() noexcept {
  if (pipeline_.optimisations().local_queries) return;
  // Any question will do: what is known by its answer has been pushed before.
  const wire::cuEventElapsedTime_v2 args{};
  wire::cuEventElapsedTime_v2::Reply reply{};
  static_cast<void>(pipeline_.call(
      {.opcode = args.kOpcode, .context = 0, .fixed = detail::as_bytes(args), .blobs = {}},
      detail::shape_of<wire::cuEventElapsedTime_v2>(reply), {}));
}

CUresult Completions::query(Event& event) {
  ask_server();
  const std::uint64_t wanted = event.version.load();
  if (event.done_version.load() < wanted) pipeline_.poll();
  if (event.done_version.load() >= wanted) {
    seen_done_.fetch_add(1, std::memory_order_relaxed);
    return static_cast<CUresult>(event.result.load());
  }
  return pipeline_.is_lost() ? kSessionLost : CUDA_ERROR_NOT_READY;
}

CUresult Completions::synchronize(Event& event) {
  const std::uint64_t wanted = event.version.load();
  const CUresult lost = pipeline_.wait_until([&] { return event.done_version.load() >= wanted; });
  return lost != CUDA_SUCCESS ? lost : static_cast<CUresult>(event.result.load());
}

std::uint64_t Completions::waits() const {
  return pipeline_.waits() + seen_done_.load(std::memory_order_relaxed);
}

/// What the stream was given is done. Others may be, too, that it waited for. Its mutex is held.
CUresult Completions::tell(Stream& stream) {
  if (!std::exchange(stream.is_told, true)) seen_done_.fetch_add(1, std::memory_order_relaxed);
  return stream.done_result;
}

CUresult Completions::ask_about(Stream& stream, std::uint64_t uses, std::uint32_t context) {
  wire::stream_query args{};
  args.stream = stream.id;
  wire::stream_query::Reply reply{};
  const CUresult result = pipeline_.call(
      {.opcode = args.kOpcode, .context = context, .fixed = detail::as_bytes(args), .blobs = {}},
      detail::shape_of<wire::stream_query>(reply), {});
  std::lock_guard lock(stream.mutex);
  stream.waits_seen = waits();
  if (result != CUDA_SUCCESS) return result;
  stream.done_uses = uses;
  return stream.done_result = CUDA_SUCCESS;
}

CUresult Completions::query(Stream& stream, std::uint32_t context) {
  ask_server();
  std::uint64_t asked_uses = 0;
  bool is_implied = false;
  {
    std::lock_guard lock(stream.mutex);
    asked_uses = uses_of(stream);
    if (stream.done_uses == asked_uses) return tell(stream);
    is_implied = stream.waits_seen != waits();
  }
  if (is_implied) {
    const CUresult result = ask_about(stream, asked_uses, context);
    if (result != CUDA_ERROR_NOT_READY) return result;
  }
  for (int round = 0; round < 2; ++round) {
    std::uint64_t marker = 0;
    {
      std::lock_guard lock(stream.mutex);
      const std::uint64_t uses = uses_of(stream);
      if (stream.done_uses == uses) return tell(stream);
      if (stream.marker == 0) {
        stream.marker = marker = new_marker(stream);
        stream.marker_uses = uses;
      }
    }
    if (marker != 0) {
      if (const CUresult failed = post_marker(stream.id, marker, context)) return failed;
    }
    if (round == 0) pipeline_.poll();
  }
  return pipeline_.is_lost() ? kSessionLost : CUDA_ERROR_NOT_READY;
}

std::uint64_t Completions::new_marker(Stream& stream) {
  std::lock_guard lock(mutex_);
  markers_[++last_marker_].stream = &stream;
  return last_marker_;
}

CUresult Completions::post_marker(std::uint64_t stream, std::uint64_t marker,
                                  std::uint32_t context) {
  wire::stream_marker args{};
  args.stream = stream;
  args.marker = marker;
  SharedSeq seq;
  {
    std::lock_guard lock(mutex_);
    const auto at = markers_.find(marker);
    if (at == markers_.end())
      return CUDA_ERROR_INVALID_HANDLE;  // the stream was destroyed meanwhile
    seq = at->second.seq;
  }
  pipeline_.expect();
  const CUresult result = pipeline_.post({.opcode = args.kOpcode,
                                          .context = context,
                                          .fixed = detail::as_bytes(args),
                                          .blobs = {},
                                          .seq = seq.get()});
  pipeline_.flush();
  return result;
}

void Completions::completed(Stream& stream, std::uint64_t uses) {
  std::lock_guard lock(stream.mutex);
  stream.done_uses = uses;
  stream.done_result = CUDA_SUCCESS;
}

void Completions::remove_stream(Stream& stream) {
  std::lock_guard stream_lock(stream.mutex);
  std::lock_guard lock(mutex_);
  if (stream.marker != 0 && markers_.erase(stream.marker) != 0) pipeline_.fulfilled();
  stream.marker = 0;
}

Status Completions::on_event_done(const wire::RecordHeader& header, Bytes body) {
  SLUICE_TRY(const auto push, decode<wire::event_done>(body));
  std::lock_guard lock(mutex_);
  const auto at = events_.find(push.fixed.event);
  if (at == events_.end()) return {};  // destroyed meanwhile
  Event& event = *at->second;
  if (push.fixed.version > event.version.load())
    return fail(ErrorCode::kProtocol, "completion of an event record that was never made");
  if (push.fixed.version <= event.done_version.load()) return {};
  finish_record(event, push.fixed.version, static_cast<CUresult>(header.result));
  return {};
}

void Completions::finish_record(Event& event, std::uint64_t version, CUresult result) {
  event.result.store(result);
  event.done_version.store(version);
  if (version == event.version.load()) pipeline_.fulfilled();
}

void Completions::on_record_failed(std::uint64_t seq, CUresult result) {
  std::lock_guard lock(mutex_);
  for (const auto& [id, event] : events_) {
    if (event->record_seq.load() != seq) continue;
    const std::uint64_t version = event->version.load();
    if (event->done_version.load() < version) finish_record(*event, version, result);
    return;
  }
}

Status Completions::on_marker_done(const wire::RecordHeader& header, Bytes body) {
  SLUICE_TRY(const auto push, decode<wire::marker_done>(body));
  Stream* stream = nullptr;
  {
    std::lock_guard lock(mutex_);
    const auto at = markers_.find(push.fixed.marker);
    if (at == markers_.end()) {
      if (push.fixed.marker != 0 && push.fixed.marker <= last_marker_) return {};
      return fail(ErrorCode::kProtocol, "completion of a marker that was never posted");
    }
    stream = at->second.stream;
    markers_.erase(at);
  }
  finish_marker(push.fixed.marker, *stream, static_cast<CUresult>(header.result));
  return {};
}

void Completions::on_marker_failed(std::uint64_t seq, CUresult result) {
  std::uint64_t marker = 0;
  Stream* stream = nullptr;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [number, known] : markers_) {
      if (known.seq->load() != seq) continue;
      marker = number;
      stream = known.stream;
    }
    if (stream == nullptr) return;
    markers_.erase(marker);
  }
  finish_marker(marker, *stream, result);
}

void Completions::finish_marker(std::uint64_t marker, Stream& stream, CUresult result) {
  pipeline_.fulfilled();
  std::lock_guard lock(stream.mutex);
  if (stream.marker != marker) return;
  stream.marker = 0;
  stream.done_uses = stream.marker_uses;
  stream.done_result = result;
  stream.is_told = false;
}

}  // namespace sluice::shim
